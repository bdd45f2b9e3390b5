// Careless.java -- an entity as doc/languages.md says not to write it, for Jpa.java

import javax.persistence.*;

@Entity
@Table(name = "photos")
public class Careless {
    @Id
    @GeneratedValue(strategy = GenerationType.IDENTITY)
    public Long id;

    public String url;

    protected Careless() {}

    public Careless(String url) {
        this.url = url;
    }
}
