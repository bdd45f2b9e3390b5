// CarelessComment.java -- an entity as doc/languages.md says not to write it, for Jpa.java

import javax.persistence.*;

@Entity
@Table(name = "careless_comments")
public class CarelessComment {
    @Id
    public Long id;

    @ManyToOne
    @JoinColumn(name = "photo")
    public Photo photo;
}
