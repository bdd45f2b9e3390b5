// Tap.java -- what the programs of this directory share: assertions, as TAP, and
// the server's address

import java.sql.*;

class Tap {
    // A double does not hold it: 175928847299117056 is what it makes of it.
    static final long ODD = 175928847299117063L;

    static int count;

    static void ok(boolean good, String name) {
        System.out.printf("%s %d - %s%n", good ? "ok" : "not ok", ++count, name);
    }

    static void done() {
        System.out.println("1.." + count);
    }

    /** Is the column of ids a snowflake, or a bigint? */
    static boolean isSnowflake() {
        return "snowflake".equals(System.getenv("COLUMN"));
    }

    static String url() {
        return "jdbc:postgresql://127.0.0.1:" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE")
            + "?user=" + System.getenv("PGUSER") + "&password=" + System.getenv("PGPASSWORD");
    }

    static Connection connect() throws SQLException {
        return DriverManager.getConnection(url());
    }

    static String value(Connection db, String query) throws SQLException {
        try (var statement = db.createStatement(); var row = statement.executeQuery(query)) {
            row.next();
            return row.getString(1);
        }
    }

    interface Attempt {
        void run() throws Exception;
    }

    /** The message with which it fails, that of the first cause. */
    static String failure(Attempt attempt) {
        try {
            attempt.run();
            return "";
        } catch (Exception error) {
            Throwable cause = error;
            while (cause.getCause() != null)
                cause = cause.getCause();
            return cause.getMessage();
        }
    }
}
