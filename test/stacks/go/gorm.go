// gorm.go -- snowflake from Go, by GORM
//
// What stands in doc/languages.md is copied out of here.

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type Photo struct {
	ID  int64  `gorm:"primaryKey;autoIncrement:false;type:snowflake;default:snowflake_nextval()" json:"id,string"`
	URL string `gorm:"not null" json:"url"`
}

// Several rows at once.
func findPhotos(db *gorm.DB, ids []int64) (photos []Photo, err error) {
	err = db.Order("id").Find(&photos, "id IN ?", ids).Error
	return photos, err
}

// A page of the table, newest first; the first one starts below math.MaxInt64.
func page(db *gorm.DB, last int64, size int) (photos []Photo, err error) {
	err = db.Where("id < ?", last).Order("id DESC").Limit(size).Find(&photos).Error
	return photos, err
}

// The rows from a time on.
func photosSince(db *gorm.DB, from time.Time) (photos []Photo, err error) {
	err = db.Where("id >= snowflake_floor(?)", from).Order("id").Find(&photos).Error
	return photos, err
}

// Ids for rows that are not yet written.
func fetchIDs(db *gorm.DB, n int) (ids []int64, err error) {
	err = db.Raw("SELECT snowflake_nextval() FROM generate_series(1, ?)", n).Scan(&ids).Error
	return ids, err
}

// --- The test

type bigintPhoto struct {
	ID  int64  `gorm:"primaryKey;autoIncrement:false;type:bigint;default:snowflake_nextval()"`
	URL string `gorm:"not null"`
}

func (bigintPhoto) TableName() string { return "photos" }

type untaggedPhoto struct {
	ID  int64
	URL string `gorm:"not null"`
}

func (untaggedPhoto) TableName() string { return "photos" }

func findPhoto(db *gorm.DB, id any) (string, error) {
	var photo Photo
	err := db.Take(&photo, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return "", nil
	}
	return photo.URL, err
}

func text(db *gorm.DB, query string) (value string) {
	mustDo(db.Raw(query).Scan(&value).Error)
	return value
}

func typeOfID(db *gorm.DB) string {
	return text(db, `SELECT atttypid::regtype FROM pg_attribute WHERE attrelid = 'photos'::regclass AND attname = 'id'`)
}

func defaultOfID(db *gorm.DB) string {
	return text(db, `SELECT coalesce(max(pg_get_expr(adbin, adrelid)), 'none') FROM pg_attrdef WHERE adrelid = 'photos'::regclass`)
}

// A row that others belong to, with the tag of the column's type
type comment struct {
	ID      int64 `gorm:"primaryKey;autoIncrement:false;type:snowflake;default:snowflake_nextval()"`
	PhotoID int64 `gorm:"type:snowflake;not null"`
}

type tag struct {
	ID   int64 `gorm:"primaryKey;autoIncrement:false;type:snowflake;default:snowflake_nextval()"`
	Name string
}

type relatedPhoto struct {
	ID       int64     `gorm:"primaryKey;autoIncrement:false;type:snowflake;default:snowflake_nextval()"`
	Comments []comment `gorm:"foreignKey:PhotoID"`
	Tags     []tag     `gorm:"many2many:related_tags"`
}

type bigintComment struct {
	ID      int64 `gorm:"primaryKey;autoIncrement:false;type:bigint;default:snowflake_nextval()"`
	PhotoID int64 `gorm:"not null"`
}

type bigintTag struct {
	ID   int64 `gorm:"primaryKey;autoIncrement:false;type:bigint;default:snowflake_nextval()"`
	Name string
}

type bigintRelatedPhoto struct {
	ID       int64           `gorm:"primaryKey;autoIncrement:false;type:bigint;default:snowflake_nextval()"`
	Comments []bigintComment `gorm:"foreignKey:PhotoID"`
	Tags     []bigintTag     `gorm:"many2many:related_tags"`
}

func (comment) TableName() string            { return "related_comments" }
func (tag) TableName() string                { return "related_names" }
func (relatedPhoto) TableName() string       { return "related_photos" }
func (bigintComment) TableName() string      { return "related_comments" }
func (bigintTag) TableName() string          { return "related_names" }
func (bigintRelatedPhoto) TableName() string { return "related_photos" }

func testRelations(db *gorm.DB, column string) {
	if column == "snowflake" {
		mustDo(db.AutoMigrate(&relatedPhoto{}, &comment{}, &tag{}))
		mustDo(db.Create(&relatedPhoto{ID: odd, Comments: []comment{{ID: odd + 2}, {ID: odd + 4}}, Tags: []tag{{Name: "red"}, {Name: "blue"}}}).Error)
		var photo relatedPhoto
		mustDo(db.Preload("Comments").Preload("Tags").Take(&photo).Error)
		ok(fmt.Sprint(photo.Comments) == fmt.Sprint([]comment{{odd + 2, odd}, {odd + 4, odd}}) && len(photo.Tags) == 2 && photo.Tags[1].ID > photo.Tags[0].ID,
			"relations have all digits")
	} else {
		mustDo(db.AutoMigrate(&bigintRelatedPhoto{}, &bigintComment{}, &bigintTag{}))
		mustDo(db.Create(&bigintRelatedPhoto{ID: odd, Comments: []bigintComment{{ID: odd + 2}, {ID: odd + 4}}, Tags: []bigintTag{{Name: "red"}, {Name: "blue"}}}).Error)
		var photo bigintRelatedPhoto
		mustDo(db.Preload("Comments").Preload("Tags").Take(&photo).Error)
		ok(fmt.Sprint(photo.Comments) == fmt.Sprint([]bigintComment{{odd + 2, odd}, {odd + 4, odd}}) && len(photo.Tags) == 2 && photo.Tags[1].ID > photo.Tags[0].ID,
			"relations have all digits")
	}
	types := `SELECT string_agg(atttypid::regtype || coalesce(' ' || pg_get_expr(adbin, adrelid), ''), ',') FROM pg_constraint
		JOIN pg_attribute ON (attrelid, attnum) = (conrelid, conkey[1]) LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum)
		WHERE contype = 'f' AND conrelid::regclass::text LIKE 'related%'`
	ok(text(db, types) == column+" snowflake_nextval(),"+column+" snowflake_nextval(),"+column,
		"what refers to a key has its type; in a table of many-to-many the DEFAULT, too")
	mustDo(db.Exec(`ALTER TABLE related_tags ` + text(db, `SELECT string_agg('ALTER ' || attname || ' DROP DEFAULT', ', ')
		FROM pg_attribute WHERE attrelid = 'related_tags'::regclass AND attnum > 0`)).Error)
	if column == "snowflake" {
		mustDo(db.AutoMigrate(&relatedPhoto{}))
	} else {
		mustDo(db.AutoMigrate(&bigintRelatedPhoto{}))
	}
	ok(text(db, types) == column+","+column+","+column, "which a migration of yours drops for good")
}

func connect() *gorm.DB {
	return must(gorm.Open(postgres.Open(""), &gorm.Config{Logger: logger.Discard}))
}

func main() {
	db := connect()
	column := "bigint"
	var model any = &bigintPhoto{}
	if isSnowflake() {
		column, model = "snowflake", &Photo{}
	}
	statements := func() string { return text(db, `SELECT count(*) FROM ddl`) }

	// migrations: a table that is there, a new one, and again
	mustDo(db.AutoMigrate(model))
	ok(statements() == "0", "AutoMigrate changes nothing in a table that is there")
	mustDo(db.Exec(`DROP TABLE photos CASCADE`).Error)
	mustDo(db.AutoMigrate(model))
	ok(typeOfID(db) == column && defaultOfID(db) == "snowflake_nextval()", "AutoMigrate makes the column and its default")
	made := statements()
	mustDo(db.AutoMigrate(model))
	ok(made != "0" && statements() == made, "and the second time, nothing")

	library{
		add: func(url string) (int64, error) {
			photo := Photo{URL: url}
			err := db.Create(&photo).Error
			return photo.ID, err
		},
		put:      func(photo Photo) error { return db.Create(&photo).Error },
		find:     func(id int64) (string, error) { return findPhoto(db, id) },
		findText: func(id string) (string, error) { return findPhoto(db, id) },
		findMany: func(ids []int64) ([]Photo, error) { return findPhotos(db, ids) },
		page:     func(last int64, size int) ([]Photo, error) { return page(db, last, size) },
		since:    func(from time.Time) ([]Photo, error) { return photosSince(db, from) },
		fetchIDs: func(n int) ([]int64, error) { return fetchIDs(db, n) },
		exec: func(statements string) error {
			for _, statement := range strings.Split(statements, ";") {
				if err := db.Exec(statement).Error; err != nil {
					return err
				}
			}
			return nil
		},
		comments: func() (all [][]*int64, err error) {
			rows, err := db.Raw(commentsOfPhotos).Rows()
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			for rows.Next() {
				var ids []*int64
				if err := rows.Scan(pgtype.NewMap().SQLScanner(&ids)); err != nil {
					return nil, err
				}
				all = append(all, ids)
			}
			return all, rows.Err()
		},
	}.test()
	testRelations(db, column)

	photos := []Photo{{URL: "a"}, {URL: "b"}, {ID: odd + 2, URL: "c"}}
	mustDo(db.Create(&photos).Error)
	ok(photos[0].ID > odd+2 && photos[1].ID > photos[0].ID && photos[2].ID == odd+2, "a batch gets its ids, but for one that has an id")
	mustDo(db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Photo{ID: odd + 2, URL: "d"}).Error)
	ok(must(findPhoto(db, int64(odd+2))) == "d", "an upsert finds its row")

	ok(db.Find(&photos, "id >= ?", time.Now()).Error != nil, "a time that is not told to be one is refused")
	if isSnowflake() {
		ok(db.Find(&photos, "id >= ?::timestamptz", time.Now()).Error == nil, "with the cast it is taken")
	}

	// without the tag
	mustDo(db.AutoMigrate(&untaggedPhoto{}))
	ok(typeOfID(db) == column && defaultOfID(db) == "snowflake_nextval()", "without the tag, a table that is there stays as it is")
	mustDo(db.Exec(`DROP TABLE photos CASCADE`).Error)
	db = connect() // as it prepared statements for the old table
	mustDo(db.AutoMigrate(&untaggedPhoto{}))
	photo := untaggedPhoto{URL: "x"}
	mustDo(db.Create(&photo).Error)
	ok(photo.ID == 1, "but a new one counts 1, 2, 3")
	mustDo(db.AutoMigrate(model))
	ok(typeOfID(db) == "bigint" && defaultOfID(db) == "nextval('photos_id_seq'::regclass)", "which the tag does not change any more")
	done()
}
