// Jdbc.java -- snowflake from Java, by the PostgreSQL JDBC driver: what
// doc/clients.md does not show

import java.math.BigInteger;
import java.sql.*;
import java.time.*;
import java.util.*;

public class Jdbc {
    /** The ids from a time on. */
    static List<Long> photosSince(Connection db, OffsetDateTime from) throws SQLException {
        try (var select = db.prepareStatement("SELECT id FROM photos WHERE id >= snowflake_floor(?) ORDER BY id")) {
            select.setObject(1, from);
            return ids(select);
        }
    }

    /** Ids for rows that are not yet written. */
    static List<Long> fetchIds(Connection db, int n) throws SQLException {
        try (var select = db.prepareStatement("SELECT snowflake_nextval() FROM generate_series(1, ?)")) {
            select.setInt(1, n);
            return ids(select);
        }
    }

    /** Write an array of ids. */
    static void addAlbum(Connection db, String name, Long... ids) throws SQLException {
        try (var insert = db.prepareStatement("INSERT INTO albums VALUES (?, ?)")) {
            insert.setString(1, name);
            insert.setArray(2, db.createArrayOf("bigint", ids));
            insert.executeUpdate();
        }
    }

    /** Read an array of ids, from a column of type bigint[]. */
    static Long[] findAlbum(Connection db, String name) throws SQLException {
        try (var select = db.prepareStatement("SELECT photos FROM albums WHERE name = ?")) {
            select.setString(1, name);
            try (var row = select.executeQuery()) {
                row.next();
                return (Long[]) row.getArray(1).getArray();
            }
        }
    }

    static List<Long> ids(PreparedStatement select) throws SQLException {
        var ids = new ArrayList<Long>();
        try (var row = select.executeQuery()) {
            while (row.next())
                ids.add(row.getLong(1));
        }
        return ids;
    }

    public static void main(String[] arguments) throws Exception {
        var db = Tap.connect();
        var began = OffsetDateTime.now().minusMinutes(1);

        try (var statement = db.createStatement()) {
            statement.execute("INSERT INTO photos VALUES (" + Tap.ODD + ", 'discord')");
            statement.execute("INSERT INTO photos (url) VALUES ('now')");
        }
        long now = Long.parseLong(Tap.value(db, "SELECT id FROM photos WHERE url = 'now'"));
        Tap.ok(photosSince(db, began).equals(List.of(now)), "rows are found by time");
        var ids = fetchIds(db, 1000);
        Tap.ok(ids.get(0) > now && List.copyOf(new TreeSet<>(ids)).equals(ids), "a thousand ids fetched ahead are different, and in order");
        addAlbum(db, "mine", now, Tap.ODD);
        Tap.ok(Arrays.equals(findAlbum(db, "mine"), new Long[] {now, Tap.ODD}), "an array of ids comes back as it was");

        try (var select = db.prepareStatement("SELECT id, array[id] FROM photos WHERE url = 'discord'");
                var row = select.executeQuery()) {
            row.next();
            Tap.ok(row.getLong(1) == Tap.ODD && row.getString(1).equals("" + Tap.ODD), "getLong and getString give the id");
            String asLong = Tap.failure(() -> row.getObject(1, Long.class));
            String asBig = Tap.failure(() -> row.getObject(1, BigInteger.class));
            Tap.ok(Tap.isSnowflake() == asLong.contains("not supported"), "getObject with Long.class gives it from a bigint only");
            Tap.ok(Tap.isSnowflake() != row.getArray(2).getArray() instanceof Long[], "an array is Long[] from a bigint[] only");
            Tap.ok(Tap.isSnowflake() == asBig.contains("not supported"), "so does getObject with BigInteger.class");
        }
        Tap.value(db, "INSERT INTO comments VALUES (" + (Tap.ODD + 2) + ", " + Tap.ODD + ") RETURNING id");
        try (var select = db.prepareStatement("SELECT array_agg(c.id)::bigint[] FROM photos p LEFT JOIN comments c ON c.photo = p.id"
                + " GROUP BY p.id ORDER BY p.id");
                var row = select.executeQuery()) {
            row.next();
            Tap.ok(Arrays.equals((Long[]) row.getArray(1).getArray(), new Long[] {Tap.ODD + 2}), "an array that is cast is Long[]");
            row.next();
            Tap.ok(Arrays.equals((Long[]) row.getArray(1).getArray(), new Long[] {null}), "and has its NULL");
        }
        try (var column = db.getMetaData().getColumns(null, "public", "photos", "id")) {
            column.next();
            Tap.ok(column.getString("TYPE_NAME").equals(Tap.isSnowflake() ? "snowflake" : "bigserial"),
                "metadata takes a DEFAULT with nextval in its name for a sequence");
        }
        try (var select = db.prepareStatement("SELECT FROM photos WHERE id >= ?")) {
            select.setTimestamp(1, new Timestamp(0));
            Tap.ok(Tap.failure(select::executeQuery).contains("invalid input syntax for type bigint"), "setTimestamp declares no type, and is refused");
            select.setObject(1, began);
            Tap.ok(Tap.failure(select::executeQuery).contains("does not exist") != Tap.isSnowflake(),
                "an OffsetDateTime is a timestamptz, which only a snowflake is compared with");
        }
        try (var select = db.prepareStatement("SELECT FROM photos WHERE id >= snowflake_floor(?)")) {
            select.setTimestamp(1, new Timestamp(0));
            Tap.ok(Tap.failure(select::executeQuery).isEmpty(), "snowflake_floor takes what setTimestamp sends");
        }
        db.close();
        Tap.done();
    }
}
