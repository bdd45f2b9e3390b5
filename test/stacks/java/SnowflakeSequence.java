// SnowflakeSequence.java -- how EclipseLink gets ids from the server
//
// What stands in doc/languages.md is copied out of here.

import java.util.Vector;

import org.eclipse.persistence.config.SessionCustomizer;
import org.eclipse.persistence.internal.databaseaccess.Accessor;
import org.eclipse.persistence.internal.sessions.AbstractSession;
import org.eclipse.persistence.queries.DirectReadQuery;
import org.eclipse.persistence.sequencing.Sequence;
import org.eclipse.persistence.sessions.Session;

/** The generator "snowflake". */
public class SnowflakeSequence extends Sequence implements SessionCustomizer {
    public SnowflakeSequence() {
        super("snowflake", 1);      // the number of ids that one query fetches
    }

    @Override
    public void customize(Session session) {
        session.getLogin().addSequence(this);
    }

    @Override
    @SuppressWarnings({"rawtypes", "unchecked"})
    public Vector getGeneratedVector(Accessor accessor, AbstractSession session, String name, int size) {
        var query = new DirectReadQuery(
            "SELECT snowflake_nextval()::bigint FROM generate_series(1, " + size + ")");
        return new Vector((java.util.Collection) session.executeQuery(query));
    }

    @Override
    public Object getGeneratedValue(Accessor accessor, AbstractSession session, String name) {
        return getGeneratedVector(accessor, session, name, 1).get(0);
    }

    @Override
    public boolean shouldUsePreallocation() {
        return getPreallocationSize() > 1;
    }

    @Override
    public boolean shouldUseTransaction() {
        return false;
    }

    @Override
    public boolean shouldAcquireValueAfterInsert() {
        return false;
    }

    @Override
    public void onConnect() {}

    @Override
    public void onDisconnect() {}
}
