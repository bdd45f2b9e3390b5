# Makefile -- build, install and test snowflake with PGXS
#
#   make                        against the server of the first pg_config in PATH,
#   make PG_CONFIG=/path        or against that one
#   make install
#   make installcheck           against a server that is set up as README.md says
#   make dist                   what is committed, as snowflake-VERSION.tar.gz and .zip
#
# test/check.sh does all of it on throwaway servers.

EXTENSION  = snowflake snowflake_registry snowflake_plain
MODULE_big = snowflake
OBJS = \
	src/accept.o \
	src/clock.o \
	src/copy_from.o \
	src/decode.o \
	src/errors.o \
	src/history.o \
	src/horizon.o \
	src/identity.o \
	src/layout.o \
	src/layout_text.o \
	src/mark.o \
	src/mint.o \
	src/module.o \
	src/owner.o \
	src/positions.o \
	src/record.o \
	src/server.o \
	src/sessions.o \
	src/settings.o \
	src/settled.o \
	src/shards.o \
	src/sql.o \
	src/status.o \
	src/tables.o \
	src/text_forms.o \
	src/time_operators.o \
	src/worker.o

# Leases stand on top: with LEASES=no all else is built without src/lease and its SQL.
LEASES ?= yes
ifneq ($(LEASES),no)
OBJS += \
	src/lease/conninfo.o \
	src/lease/lease_record.o \
	src/lease/lease_status.o \
	src/lease/lease_table.o \
	src/lease/lease_wait.o \
	src/lease/lease_worker.o \
	src/lease/registry.o \
	src/lease/registry_answer.o
endif

# The script of the extension is put together of its parts: core.sql is what src/
# does, leases.sql what src/lease/ does, the others need no C.  That of
# snowflake_plain is the file that one pastes, with the schema of each name.
SQL_PARTS  = core $(if $(filter no,$(LEASES)),,leases) tables marks partitions layout_change keys audit check dependents end
DATA_built = sql/snowflake--1.0.sql
DATA_built += sql/snowflake_plain--1.0.sql
DATA       = $(patsubst $(srcdir)/%,%,$(wildcard $(srcdir)/sql/snowflake--*--*.sql $(srcdir)/sql/snowflake_registry--*.sql $(srcdir)/sql/snowflake_plain--*--*.sql))
EXTRA_CLEAN = src/leases-*.choice src/lease/*.o src/lease/*.bc tmp_check_objects
PGFILEDESC = "snowflake - 64-bit time-ordered ids"

# Only what the server calls is visible to other libraries.  The headers of 15 do
# not know how to say so: see compat.h.
PG_CPPFLAGS = '-DPGDLLEXPORT=__attribute__((visibility("default")))' -I$(libpq_srcdir) -I$(srcdir)/src -I$(srcdir)/src/lease

# The worker that leases shards is a client of the registry's server.
ifneq ($(LEASES),no)
PG_CPPFLAGS += -DWITH_LEASES
SHLIB_LINK_INTERNAL = $(libpq)
endif

# Our functions find each other, even if a library that was loaded before has one
# of the same name.
SHLIB_LINK += $(if $(filter linux,$(PORTNAME)),-Wl$(COMMA)-Bsymbolic)
COMMA = ,

# The server's own headers are clean under these, and so is our code.  The
# two that are switched off are idioms of the server: fmgr functions that do
# not look at their arguments, and signed loop counters.
PG_CFLAGS = -Wextra -Wno-unused-parameter -Wno-sign-compare -fvisibility=hidden

# Every test stands alone, so the order is the alphabet's.  The tests are not
# in sql/, because pg_regress looks there first and would shadow test/sql; the
# expected results are in the top-level expected/, because that is where both
# test programs of every server version look without being told.
REGRESS   = $(patsubst $(srcdir)/test/sql/%.sql,%,$(sort $(wildcard $(srcdir)/test/sql/*.sql)))
ISOLATION = $(patsubst $(srcdir)/test/specs/%.spec,%,$(sort $(wildcard $(srcdir)/test/specs/*.spec)))
REGRESS_OPTS   = --inputdir=$(srcdir)/test
ISOLATION_OPTS = --inputdir=$(srcdir)/test --outputdir=.

# TEMP_CONFIG is what PostgreSQL::Test::Cluster appends to the configuration
# of each server that a TAP test starts.
TAP_TESTS = 1
PROVE_TESTS ?= test/t/*.pl
TEMP_CONFIG ?= $(abspath $(srcdir))/test/snowflake.conf
export TEMP_CONFIG

# PGXS's own installcheck runs inside test/installcheck.pl, which leaves the
# server as it was: see the end of this file.
ifndef IN_INSTALLCHECK
NO_INSTALLCHECK = 1
endif

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# PGXS does not follow #include.  Few and small files: each depends on every
# header.
$(OBJS) $(OBJS:.o=.bc): $(wildcard $(srcdir)/src/*.h $(srcdir)/src/lease/*.h) $(srcdir)/Makefile

sql/snowflake--1.0.sql: $(SQL_PARTS:%=$(srcdir)/sql/snowflake/%.sql) $(srcdir)/Makefile
	awk 'FNR == 1 && NR > 1 { print "" } { print }' $(filter %.sql,$^) >$@

# Pasted, a name is that of the first schema in search_path.  In a script the server
# puts a schema in the place of @extschema@, and nothing else is looked up there.
sql/snowflake_plain--1.0.sql: $(srcdir)/sql/snowflake_plain.sql $(srcdir)/Makefile
	{ \
		echo 'SET LOCAL search_path = pg_catalog, pg_temp;'; \
		sed -E "s/( FUNCTION | DEFAULT ')snowflake_/\\1@extschema@.snowflake_/" $<; \
	} >$@

# A build outside the source tree (make -f .../Makefile VPATH=...) needs the
# directories for what it makes, and its tests what they compare with.
ifdef VPATH
$(shell mkdir -p src/lease sql; test -e expected || ln -s $(srcdir)/expected expected)
endif

# What depends on the choice of LEASES is built again when that is another one.  (PGXS
# makes no file that only others depend on, so there is no rule for this one.)
LEASES_CHOICE := src/leases-$(if $(filter no,$(LEASES)),no,yes).choice
$(shell test -e $(LEASES_CHOICE) || { rm -f src/leases-*.choice; touch $(LEASES_CHOICE); })
src/module.o src/module.bc sql/snowflake--1.0.sql: $(LEASES_CHOICE)

ifndef IN_INSTALLCHECK
installcheck:
	+@PATH="$(bindir):$$PATH" perl $(srcdir)/test/installcheck.pl "$(CONTRIB_TESTDB) $(ISOLATION_TESTDB)" \
		$(MAKE) -f $(firstword $(MAKEFILE_LIST)) installcheck IN_INSTALLCHECK=1
.PHONY: installcheck
endif

# PGXN takes the zip, packagers the other.
VERSION = $(shell sed -n 's/^   "version": "\(.*\)",$$/\1/p' $(srcdir)/META.json)

dist:
	for format in tar.gz zip; do \
		git archive --prefix=$(MODULE_big)-$(VERSION)/ --output=$(MODULE_big)-$(VERSION).$$format HEAD || exit; \
	done
.PHONY: dist
