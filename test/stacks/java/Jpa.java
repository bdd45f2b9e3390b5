// Jpa.java -- snowflake from Java, by a JPA provider: EclipseLink
//
// What stands in doc/languages.md is copied out of here, and of Photo.java,
// SnowflakeSequence.java and META-INF/persistence.xml.

import java.sql.*;
import java.time.*;
import java.util.*;
import java.util.function.*;
import java.util.stream.*;
import javax.persistence.*;

import com.fasterxml.jackson.databind.ObjectMapper;

public class Jpa {
    /** Several rows at once. */
    static List<Photo> findPhotos(EntityManager em, List<Long> ids) {
        return em.createQuery("SELECT p FROM Photo p WHERE p.id IN :ids ORDER BY p.id", Photo.class)
            .setParameter("ids", ids)
            .getResultList();
    }

    /** A page of the table, newest first; the first one starts below Long.MAX_VALUE. */
    static List<Photo> page(EntityManager em, long last, int size) {
        return em.createQuery("SELECT p FROM Photo p WHERE p.id < :last ORDER BY p.id DESC", Photo.class)
            .setParameter("last", last)
            .setMaxResults(size)
            .getResultList();
    }

    /** The rows from a time on. */
    static List<Photo> photosSince(EntityManager em, OffsetDateTime from) {
        return em.createQuery(
                "SELECT p FROM Photo p WHERE p.id >= FUNCTION('snowflake_floor', :from) ORDER BY p.id", Photo.class)
            .setParameter("from", from)
            .getResultList();
    }

    /** Ids for rows that are not yet written. */
    @SuppressWarnings("unchecked")
    static List<Long> fetchIds(EntityManager em, int n) {
        return em.createNativeQuery("SELECT snowflake_nextval()::bigint FROM generate_series(1, ?)")
            .setParameter(1, n)
            .getResultList();
    }

    // --- The test

    static EntityManagerFactory open(String unit, String... settings) {
        var properties = new HashMap<String, String>(Map.of(
            "javax.persistence.jdbc.url", Tap.url(),    // with the password: it looks like an encrypted one
            "eclipselink.connection-pool.default.initial", "1",
            "eclipselink.connection-pool.default.min", "1",
            "eclipselink.connection-pool.default.max", "1",
            "eclipselink.logging.level", "SEVERE"));
        for (int i = 0; i < settings.length; i += 2)
            properties.put(settings[i], settings[i + 1]);
        return Persistence.createEntityManagerFactory(unit, properties);
    }

    static <T> T inTransaction(EntityManager em, Supplier<T> work) {
        em.getTransaction().begin();
        try {
            T result = work.get();
            em.getTransaction().commit();
            return result;
        } finally {
            if (em.getTransaction().isActive())
                em.getTransaction().rollback();
            em.clear();
        }
    }

    static Photo add(EntityManager em, Photo photo) {
        return inTransaction(em, () -> {
            em.persist(photo);
            return photo;
        });
    }

    static List<Long> ids(List<Photo> photos) {
        return photos.stream().map(photo -> photo.id).toList();
    }

    /** As SnowflakeSequence, but with a size of 50. */
    public static class Fifty extends SnowflakeSequence {
        public Fifty() {
            setPreallocationSize(50);
        }
    }

    /** How many ids are minted for so many rows. */
    static long mintedFor(EntityManager em, Connection db, int rows) throws SQLException {
        String minted = "SELECT sum(minted) FROM pg_stat_snowflake";    // app is in pg_monitor
        long before = Long.parseLong(Tap.value(db, minted));
        var photos = IntStream.range(0, rows).mapToObj(n -> new Photo("photo " + n)).toList();
        inTransaction(em, () -> {
            photos.forEach(em::persist);
            return null;
        });
        Tap.ok(List.copyOf(new TreeSet<>(ids(photos))).equals(ids(photos)), "ids of many rows are different, and in order");
        return Long.parseLong(Tap.value(db, minted)) - before;
    }

    static Careless addCareless(EntityManager em) {
        return inTransaction(em, () -> {
            var row = new Careless("careless");
            em.persist(row);
            return row;
        });
    }

    /** How many statements have changed the schema. */
    static String statements(Connection db) throws SQLException {
        return Tap.value(db, "SELECT count(*) FROM ddl");
    }

    /** Have EclipseLink make the tables, as far as they are not there. */
    static void makeTables(String unit) {
        var factory = open(unit, "eclipselink.ddl-generation", "create-or-extend-tables");
        factory.createEntityManager().close();
        factory.close();
    }

    static void execute(Connection db, String statement) throws SQLException {
        try (var run = db.createStatement()) {
            run.execute(statement);
        }
    }

    /** Relations, in tables of either type. */
    static void checkRelations(EntityManager em) {
        var photo = em.find(Photo.class, Tap.ODD);
        var tag = new Tag();
        tag.photos.add(photo);
        var comments = List.of(new Comment(photo), new Comment(photo));
        comments.get(0).id = Tap.ODD + 2;
        comments.get(1).id = Tap.ODD + 4;
        inTransaction(em, () -> {
            comments.forEach(em::persist);
            em.persist(tag);
            return null;
        });
        List<Comment> found = em.createQuery("SELECT c FROM Comment c JOIN FETCH c.photo ORDER BY c.id", Comment.class).getResultList();
        Tap.ok(found.stream().map(comment -> comment.id - comment.photo.id).toList().equals(List.of(2L, 4L)), "relations have all digits");
        em.clear();
        Tap.ok(ids(em.find(Tag.class, tag.id).photos).equals(List.of(Tap.ODD)), "and so have those of many to many");
        inTransaction(em, () -> em.createNativeQuery("DELETE FROM photos_tags; DELETE FROM comments").executeUpdate());
    }

    /** The columns that refer to photos and tags, with their DEFAULT. */
    static String typesOfForeignKeys(Connection db) throws SQLException {
        return Tap.value(db, "SELECT string_agg(atttypid::regtype || coalesce(' DEFAULT ' || pg_get_expr(adbin, adrelid), ''), ',')"
            + " FROM pg_constraint JOIN pg_attribute ON (attrelid, attnum) = (conrelid, conkey[1])"
            + " LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum) WHERE contype = 'f'");
    }

    static String typeOfId(Connection db) throws SQLException {
        return Tap.value(db, "SELECT atttypid::regtype || ' ' || pg_get_expr(adbin, adrelid) FROM pg_attribute"
            + " LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum)"
            + " WHERE attrelid = 'photos'::regclass AND attname = 'id'");
    }

    public static void main(String[] arguments) throws Exception {
        var db = Tap.connect();
        var factory = open("app");
        var em = factory.createEntityManager();
        var began = OffsetDateTime.now().minusMinutes(1);

        var first = add(em, new Photo("first"));
        var second = add(em, new Photo("second"));
        Tap.ok(first.id > Tap.ODD && second.id > first.id, "an id is a Long, and ids increase");
        Tap.ok("second".equals(em.find(Photo.class, second.id).url), "a row is found by it");

        var discord = new Photo("discord");
        discord.id = Tap.ODD;
        add(em, discord);
        Tap.ok("discord".equals(em.find(Photo.class, Tap.ODD).url), "a row with a given id is found");
        Tap.ok(em.find(Photo.class, Tap.ODD - 7) == null, "and only by all its digits");
        em.clear();
        Tap.ok(ids(findPhotos(em, List.of(second.id, Tap.ODD))).equals(List.of(Tap.ODD, second.id)),
            "rows are found by a list, with all digits");
        Tap.ok(ids(photosSince(em, began)).equals(List.of(first.id, second.id)), "rows are found by time");

        var fetched = fetchIds(em, 1000);
        Tap.ok(fetched.get(0) > second.id && List.copyOf(new TreeSet<>(fetched)).equals(fetched),
            "a thousand ids fetched ahead are different, and in order");
        var given = new Photo("fetched");
        given.id = fetched.get(999);
        add(em, given);
        Tap.ok("fetched".equals(em.find(Photo.class, given.id).url), "and one is used");

        var seen = new ArrayList<Long>();
        List<Photo> page;
        for (long last = Long.MAX_VALUE; !(page = page(em, last, 3)).isEmpty(); last = page.get(page.size() - 1).id)
            seen.addAll(ids(page));
        Tap.ok(seen.equals(List.of(given.id, second.id, first.id, Tap.ODD)), "pages show each row once, newest first");

        var json = new ObjectMapper();
        String text = json.writeValueAsString(discord);
        Tap.ok(text.equals("{\"id\":\"175928847299117063\",\"url\":\"discord\"}"), "JSON has the id as a string");
        Tap.ok(json.readValue(text, Photo.class).id == Tap.ODD, "and it is read again");

        var id = em.createNativeQuery("SELECT id FROM photos WHERE url = 'discord'").getSingleResult();
        Tap.ok(Tap.isSnowflake() != id instanceof Long && id.toString().equals("" + Tap.ODD), "a native query gives a Long from a bigint only");

        checkRelations(em);

        // ids fetched by one query, and by 50
        Tap.ok(mintedFor(em, db, 120) == 120, "an id is minted for each row");
        factory.close();
        factory = open("app", "eclipselink.session.customizer", Fifty.class.getName());
        Tap.ok(mintedFor(factory.createEntityManager(), db, 120) == 150, "with a size of 50, ids are minted 50 at a time");
        factory.close();

        // the schema: a table that is there, a new one, and again
        String columns = "SELECT string_agg(attrelid::regclass || ' ' || attname || ' ' || atttypid::regtype || atthasdef, ',' ORDER BY attrelid, attnum)"
            + " FROM pg_attribute JOIN pg_class c ON c.oid = attrelid WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND attnum > 0";
        String there = Tap.value(db, columns);
        makeTables("app");
        Tap.ok(Tap.value(db, columns).equals(there), "EclipseLink changes no column of tables that are there");
        execute(db, "DROP TABLE photos_tags, comments, tags, photos");
        makeTables("app");
        Tap.ok(typesOfForeignKeys(db).equals("snowflake,snowflake,snowflake"), "what refers to a key has its type, and no DEFAULT");
        Tap.ok(typeOfId(db).equals("snowflake snowflake_nextval()"), "EclipseLink makes the column and its default");
        String made = statements(db);
        makeTables("app");
        Tap.ok(statements(db).equals(made), "and the second time, nothing");

        // IDENTITY
        factory = open("careless");
        var careless = factory.createEntityManager();
        String failure = Tap.failure(() -> addCareless(careless));
        Tap.ok(failure.contains("lastval is not yet defined"), "IDENTITY asks for the last number of a sequence");
        inTransaction(careless, () -> careless.createNativeQuery(
            "CREATE TEMP TABLE orders (id serial); INSERT INTO orders DEFAULT VALUES").executeUpdate());
        Tap.ok(addCareless(careless).id == 1, "and takes the number of another table for the id");
        Tap.ok(Long.parseLong(Tap.value(db, "SELECT id FROM photos WHERE url = 'careless'")) > Tap.ODD, "which it is not");
        factory.close();
        makeTables("careless-relation");
        Tap.ok(typesOfForeignKeys(db).contains("snowflake DEFAULT snowflake_nextval()"), "without the columnDefinition, the DEFAULT of the key");
        execute(db, "DROP TABLE photos CASCADE");
        makeTables("careless");
        Tap.ok(typeOfId(db).startsWith("integer nextval"), "with IDENTITY, a new table has numbers of 32 bits, from a sequence");
        makeTables("app");
        Tap.ok(typeOfId(db).startsWith("integer nextval"), "which the columnDefinition does not change any more");
        db.close();
        Tap.done();
    }
}
