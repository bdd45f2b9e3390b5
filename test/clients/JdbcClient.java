// JdbcClient.java -- snowflake from Java, by the PostgreSQL JDBC driver
//
// What stands in doc/clients.md is copied out of here.  Connects as the PG*
// environment variables say, by TCP, to a database with the table photos, and
// prints TAP.  Run it as it is: java -cp postgresql.jar JdbcClient.java

import java.sql.*;
import java.util.*;
import java.util.regex.*;

import org.postgresql.PGResultSetMetaData;

public class JdbcClient {
    record Photo(long id, String url) {}

    /** The id of the new row. */
    static long addPhoto(Connection db, String url) throws SQLException {
        try (var insert = db.prepareStatement("INSERT INTO photos (url) VALUES (?) RETURNING id")) {
            insert.setString(1, url);
            try (var row = insert.executeQuery()) {
                row.next();
                return row.getLong(1);
            }
        }
    }

    /** The url of a row, by a long. */
    static String findPhoto(Connection db, long id) throws SQLException {
        try (var select = db.prepareStatement("SELECT url FROM photos WHERE id = ?")) {
            select.setLong(1, id);
            try (var row = select.executeQuery()) {
                return row.next() ? row.getString(1) : null;
            }
        }
    }

    /** The same by text, which the driver declares as varchar: hence the cast. */
    static String findPhoto(Connection db, String id) throws SQLException {
        try (var select = db.prepareStatement("SELECT url FROM photos WHERE id = ?::snowflake")) {
            select.setString(1, id);
            try (var row = select.executeQuery()) {
                return row.next() ? row.getString(1) : null;
            }
        }
    }

    /** Several rows at once. */
    static List<Photo> findPhotos(Connection db, Long... ids) throws SQLException {
        try (var select = db.prepareStatement("SELECT id, url FROM photos WHERE id = ANY (?) ORDER BY id")) {
            select.setArray(1, db.createArrayOf("bigint", ids));
            return photos(select);
        }
    }

    /** A page of the table, newest first; the first one starts below Long.MAX_VALUE. */
    static List<Photo> page(Connection db, long last, int size) throws SQLException {
        try (var select = db.prepareStatement(
                "SELECT id, url FROM photos WHERE id < ? ORDER BY id DESC LIMIT ?")) {
            select.setLong(1, last);
            select.setInt(2, size);
            return photos(select);
        }
    }

    static List<Photo> photos(PreparedStatement select) throws SQLException {
        var photos = new ArrayList<Photo>();
        try (var row = select.executeQuery()) {
            while (row.next())
                photos.add(new Photo(row.getLong("id"), row.getString("url")));
        }
        return photos;
    }

    // --- The test.  The ids are the extremes, the smallest, and one that a
    // --- double does not hold: to pass, no digit may be lost.

    static final long[] IDS = {Long.MAX_VALUE, Long.MIN_VALUE, 1, 175928847299117063L};
    static int count;

    static void ok(boolean good, String name) {
        System.out.printf("%s %d - %s%n", good ? "ok" : "not ok", ++count, name);
    }

    /** The server on 127.0.0.1, with a setting of the driver. */
    static Connection connect(String... settings) throws SQLException {
        var properties = new Properties();
        properties.setProperty("user", System.getenv("PGUSER"));
        properties.setProperty("password", System.getenv("PGPASSWORD"));
        for (int i = 0; i < settings.length; i += 2)
            properties.setProperty(settings[i], settings[i + 1]);
        return DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + System.getenv("PGPORT")
                + "/" + System.getenv("PGDATABASE"), properties);
    }

    static String value(Connection db, String query) throws SQLException {
        try (var statement = db.createStatement(); var row = statement.executeQuery(query)) {
            row.next();
            return row.getString(1);
        }
    }

    /** How an id is put into a statement. */
    interface Setter {
        void set(PreparedStatement statement, long id) throws SQLException;
    }

    /** Send each id, and read it as a long, an object and text. */
    static void roundTrip(Connection db, String name, String mark, Setter setter) throws SQLException {
        boolean good = true;
        String[] queries = {
            "INSERT INTO photos VALUES (" + mark + ", 'x') RETURNING id, id::bigint, id::text",
            "SELECT id, id::bigint, id::text FROM photos WHERE id = " + mark,
            "DELETE FROM photos WHERE id = " + mark + " RETURNING id, id::bigint, id::text"};
        var statements = new ArrayList<PreparedStatement>();
        for (String query : queries)
            statements.add(db.prepareStatement(query));
        for (long id : IDS) {
            for (var statement : statements) {
                setter.set(statement, id);
                try (var row = statement.executeQuery()) {
                    good = good && row.next()
                        && row.getLong(1) == id
                        && row.getString(1).equals(Long.toString(id))
                        && row.getObject(1).toString().equals(Long.toString(id))
                        && row.getObject(2).equals(id)
                        && row.getString(3).equals(Long.toString(id));
                }
            }
        }
        ok(good, name + " come back as they were");
        for (var statement : statements)
            statement.close();
    }

    static void roundTrips(Connection db, String mode) throws SQLException {
        roundTrip(db, mode + ": ids sent as long", "?", (s, id) -> s.setLong(1, id));
        roundTrip(db, mode + ": ids sent as text", "?::snowflake", (s, id) -> s.setString(1, Long.toString(id)));
        roundTrip(db, mode + ": ids sent as text of no type", "?",
            (s, id) -> s.setObject(1, Long.toString(id), Types.OTHER));
    }

    static String prepared(Connection db) throws SQLException {
        return value(db, "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%RETURNING id, id::bigint%'");
    }

    public static void main(String[] arguments) throws Exception {
        var db = connect();
        System.out.println("# " + db.getMetaData().getDriverVersion());

        long first = addPhoto(db, "first");
        long second = addPhoto(db, "second");
        ok(second > first, "an id is a long");
        ok(value(db, "SELECT id FROM photos WHERE url = 'second'").equals(Long.toString(second)),
            "and the id that RETURNING gave is the row's");
        ok("second".equals(findPhoto(db, second)), "a row is found by a long");
        ok("first".equals(findPhoto(db, Long.toString(first))), "and by text");
        ok(findPhotos(db, second, first).equals(List.of(new Photo(first, "first"), new Photo(second, "second"))),
            "rows are found by an array");
        try (var insert = db.prepareStatement("INSERT INTO photos (url) VALUES (?)", new String[] {"id"})) {
            insert.setString(1, "third");
            insert.executeUpdate();
            var keys = insert.getGeneratedKeys();
            ok(keys.next() && "third".equals(findPhoto(db, keys.getLong(1))), "getGeneratedKeys gives the id");
            long third = keys.getLong(1);
            try (var delete = db.prepareStatement("DELETE FROM photos WHERE id = ?")) {
                delete.setLong(1, third);
                ok(delete.executeUpdate() == 1, "and by it the row is deleted");
            }
        }
        try (var select = db.prepareStatement("SELECT FROM photos WHERE id = ?")) {
            select.setString(1, Long.toString(first));
            select.executeQuery();
            ok(false, "text without the cast is refused");
        } catch (SQLException error) {
            ok(error.getSQLState().equals("42883"), "text without the cast is refused");
        }

        // every way to send and to receive
        try (var other = connect("preferQueryMode", "simple")) {
            roundTrips(other, "simple");
        }
        try (var other = connect("prepareThreshold", "0")) {
            roundTrips(other, "extended");
            ok(prepared(other).equals("0"), "and no statement was prepared");
        }
        try (var other = connect("prepareThreshold", "1")) {
            roundTrips(other, "prepared");
            ok(!prepared(other).equals("0"), "and statements were prepared");
        }
        try (var other = connect("stringtype", "unspecified")) {
            roundTrip(other, "stringtype=unspecified: ids sent as text", "?",
                (s, id) -> s.setString(1, Long.toString(id)));
        }
        try (var other = connect("prepareThreshold", "-1")) {
            roundTrips(other, "binary");
            try (var select = other.prepareStatement("SELECT id::bigint, id FROM photos WHERE id = ?")) {
                select.setLong(1, second);
                try (var row = select.executeQuery()) {
                    var about = (PGResultSetMetaData) row.getMetaData();
                    ok(row.next() && row.getLong(1) == second && row.getLong(2) == second
                            && about.getFormat(1) == 1 && about.getFormat(2) == 0,
                        "and what is cast to bigint arrives in binary, a snowflake in text");
                }
            }
        }

        // some hundred rows
        var ids = new ArrayList<Long>(List.of(first, second));
        for (int n = 0; n < 150; n++)
            ids.add(addPhoto(db, "u" + n));
        try (var insert = db.prepareStatement("INSERT INTO photos (url) VALUES (?)", new String[] {"id"})) {
            for (int n = 0; n < 150; n++) {
                insert.setString(1, "b" + n);
                insert.addBatch();
            }
            insert.executeBatch();
            var keys = insert.getGeneratedKeys();
            while (keys.next())
                ids.add(keys.getLong(1));
        }
        var sorted = new ArrayList<Long>(new TreeSet<>(ids));
        ok(ids.size() == 302 && ids.equals(sorted), "ids increase, in a batch as well");

        // pages
        var seen = new ArrayList<Long>();
        var sizes = new ArrayList<Integer>();
        List<Photo> page;
        for (long last = Long.MAX_VALUE; !(page = page(db, last, 40)).isEmpty(); last = page.get(page.size() - 1).id()) {
            page.forEach(photo -> seen.add(photo.id()));
            sizes.add(page.size());
        }
        Collections.reverse(sorted);
        ok(seen.equals(sorted), "pages: each of " + ids.size() + " rows once, in order");
        ok(sizes.equals(List.of(40, 40, 40, 40, 40, 40, 40, 22)), "in 8 pages");
        try (var statement = db.createStatement()) {
            statement.execute("SET enable_seqscan = off");
        }
        try (var explain = db.prepareStatement("EXPLAIN SELECT url FROM photos WHERE id < ?")) {
            explain.setLong(1, second);
            var plan = new StringBuilder();
            var row = explain.executeQuery();
            while (row.next())
                plan.append(row.getString(1));
            ok(plan.indexOf("Index Cond: (") > 0, "a long is looked up in the index");
        }

        // JSON
        try (var insert = db.prepareStatement("INSERT INTO photos VALUES (?, 'discord')")) {
            insert.setLong(1, 175928847299117063L);
            insert.executeUpdate();
        }
        for (String function : List.of("to_json", "row_to_json", "to_jsonb")) {
            String json = value(db, "SELECT " + function + "(photos) FROM photos WHERE url = 'discord'");
            Matcher id = Pattern.compile("\"id\": ?\"(\\d+)\"").matcher(json);
            ok(id.find() && Long.parseLong(id.group(1)) == 175928847299117063L, "JSON: no digit is lost by " + function);
        }

        System.out.println("1.." + count);
    }
}
