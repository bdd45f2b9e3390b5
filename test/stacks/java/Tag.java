// Tag.java -- an entity in a many-to-many relation, for Jpa.java
//
// What stands in doc/languages.md is copied out of here.

import java.util.*;
import javax.persistence.*;

@Entity
@Table(name = "tags")
public class Tag {
    @Id
    @GeneratedValue(generator = "snowflake")
    @Column(columnDefinition = "snowflake DEFAULT snowflake_nextval()")
    public Long id;

    @ManyToMany
    @JoinTable(name = "photos_tags",
        joinColumns = @JoinColumn(name = "tag", columnDefinition = "snowflake"),
        inverseJoinColumns = @JoinColumn(name = "photo", columnDefinition = "snowflake"))
    public List<Photo> photos = new ArrayList<>();
}
