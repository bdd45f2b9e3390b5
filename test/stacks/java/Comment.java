// Comment.java -- an entity that refers to another one, for Jpa.java
//
// What stands in doc/languages.md is copied out of here.

import javax.persistence.*;

@Entity
@Table(name = "comments")
public class Comment {
    @Id
    @GeneratedValue(generator = "snowflake")
    @Column(columnDefinition = "snowflake DEFAULT snowflake_nextval()")
    public Long id;

    @ManyToOne(optional = false)
    @JoinColumn(name = "photo", columnDefinition = "snowflake NOT NULL")    // or it has the DEFAULT of the key
    public Photo photo;

    protected Comment() {}

    public Comment(Photo photo) {
        this.photo = photo;
    }
}
