# A PostgreSQL server (15 to 19) with snowflake: the official image, and the extension.
#
#   docker build -t snowflake --build-arg PG_MAJOR=17 .
#   docker run -e POSTGRES_PASSWORD=... snowflake -c snowflake.shards=5
#
# and then CREATE EXTENSION snowflake.  A new data directory preloads the library;
# for one that exists already, add it to shared_preload_libraries.
#
# For Kubernetes with CloudNativePG see kubernetes/Dockerfile.
#
# Not tested: a build by Docker.  test/packages.pl runs the same commands, make
# and make install, in a plain Debian, which has files in the same places.

ARG PG_MAJOR=17

FROM postgres:${PG_MAJOR} AS build
RUN apt-get update && \
    apt-get install -y --no-install-recommends make gcc libc6-dev postgresql-server-dev-${PG_MAJOR}
COPY . /usr/src/snowflake
RUN make -C /usr/src/snowflake PG_CONFIG=/usr/lib/postgresql/${PG_MAJOR}/bin/pg_config with_llvm=no clean all && \
    make -C /usr/src/snowflake PG_CONFIG=/usr/lib/postgresql/${PG_MAJOR}/bin/pg_config with_llvm=no install DESTDIR=/stage

FROM postgres:${PG_MAJOR}
COPY --from=build /stage /
RUN echo "shared_preload_libraries = 'snowflake'" >> /usr/share/postgresql/${PG_MAJOR}/postgresql.conf.sample
