// Photo.java -- an entity whose ids are minted by the server, for Jpa.java
//
// What stands in doc/languages.md is copied out of here.

import com.fasterxml.jackson.annotation.JsonFormat;
import javax.persistence.*;

@Entity
@Table(name = "photos")
public class Photo {
    @Id
    @GeneratedValue(generator = "snowflake")
    @Column(columnDefinition = "snowflake DEFAULT snowflake_nextval()")
    @JsonFormat(shape = JsonFormat.Shape.STRING)    // a number of JavaScript has 53 bits
    public Long id;

    @Column(nullable = false, columnDefinition = "text")
    public String url;

    protected Photo() {}

    public Photo(String url) {
        this.url = url;
    }
}
