// pgx4.go -- snowflake from Go, by pgx 4
//
// What stands in doc/languages.md is copied out of here.

package main

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgtype"
	"github.com/jackc/pgx/v4"
)

// In JSON an id is a string: a number of JavaScript has 53 bits.
type Photo struct {
	ID  int64  `json:"id,string"`
	URL string `json:"url"`
}

// A connection that knows that a snowflake is an int8.
func connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, "")
	if err != nil {
		return nil, err
	}
	var oid, array uint32
	err = conn.QueryRow(ctx,
		`SELECT oid, typarray FROM pg_type WHERE oid = 'snowflake'::regtype`).Scan(&oid, &array)
	ids := pgtype.NewArrayType("_snowflake", oid, func() pgtype.ValueTranscoder { return &pgtype.Int8{} })
	conn.ConnInfo().RegisterDataType(pgtype.DataType{Value: &pgtype.Int8{}, Name: "snowflake", OID: oid})
	conn.ConnInfo().RegisterDataType(pgtype.DataType{Value: ids, Name: "_snowflake", OID: array})
	return conn, err
}

// --- The test

func photos(rows pgx.Rows, err error) ([]Photo, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []Photo
	for rows.Next() {
		var photo Photo
		if err := rows.Scan(&photo.ID, &photo.URL); err != nil {
			return nil, err
		}
		found = append(found, photo)
	}
	return found, rows.Err()
}

func findPhoto(ctx context.Context, db *pgx.Conn, id any) (url string, err error) {
	err = db.QueryRow(ctx, `SELECT url FROM photos WHERE id = $1`, id).Scan(&url)
	if err == pgx.ErrNoRows {
		return "", nil
	}
	return url, err
}

func addPhoto(ctx context.Context, db *pgx.Conn, url string) (id int64, err error) {
	err = db.QueryRow(ctx, `INSERT INTO photos (url) VALUES ($1) RETURNING id`, url).Scan(&id)
	return id, err
}

func putPhoto(ctx context.Context, db *pgx.Conn, photo Photo) error {
	_, err := db.Exec(ctx, `INSERT INTO photos (id, url) VALUES ($1, $2)`, photo.ID, photo.URL)
	return err
}

func fetchIDs(ctx context.Context, db *pgx.Conn, n int) ([]int64, error) {
	rows, err := db.Query(ctx, `SELECT snowflake_nextval() FROM generate_series(1, $1)`, n)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func main() {
	ctx := context.Background()
	db := must(connect(ctx))
	library{
		add:      func(url string) (int64, error) { return addPhoto(ctx, db, url) },
		put:      func(photo Photo) error { return putPhoto(ctx, db, photo) },
		find:     func(id int64) (string, error) { return findPhoto(ctx, db, id) },
		findText: func(id string) (string, error) { return findPhoto(ctx, db, id) },
		findMany: func(ids []int64) ([]Photo, error) {
			return photos(db.Query(ctx, `SELECT id, url FROM photos WHERE id = ANY($1) ORDER BY id`, ids))
		},
		page: func(last int64, size int) ([]Photo, error) {
			return photos(db.Query(ctx, `SELECT id, url FROM photos WHERE id < $1 ORDER BY id DESC LIMIT $2`, last, size))
		},
		since: func(from time.Time) ([]Photo, error) {
			return photos(db.Query(ctx, `SELECT id, url FROM photos WHERE id >= snowflake_floor($1) ORDER BY id`, from))
		},
		fetchIDs: func(n int) ([]int64, error) { return fetchIDs(ctx, db, n) },
		album: func(name string, ids []int64) (stored []int64, err error) {
			err = db.QueryRow(ctx, `INSERT INTO albums VALUES ($1, $2) RETURNING photos`, name, ids).Scan(&stored)
			return stored, err
		},
		exec: func(statements string) error {
			for _, statement := range strings.Split(statements, ";") {
				if _, err := db.Exec(ctx, statement); err != nil {
					return err
				}
			}
			return nil
		},
		comments: func() (all [][]*int64, err error) {
			rows, err := db.Query(ctx, commentsOfPhotos)
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			for rows.Next() {
				var ids []*int64
				if err := rows.Scan(&ids); err != nil {
					return nil, err
				}
				all = append(all, ids)
			}
			return all, rows.Err()
		},
	}.test()
	copied := must(db.CopyFrom(ctx, pgx.Identifier{"photos"}, []string{"id", "url"},
		pgx.CopyFromRows([][]any{{int64(odd + 2), "copied"}})))
	ok(copied == 1 && must(findPhoto(ctx, db, odd+2)) == "copied", "COPY in binary stores each digit")

	// without the registration
	plain := must(pgx.Connect(ctx, ""))
	id, err := addPhoto(ctx, plain, "plain")
	if isSnowflake() {
		ok(err != nil && strings.Contains(err.Error(), "unknown oid"), "not registered, an id cannot be read: unknown oid")
		ok(len(must(photos(db.Query(ctx, `SELECT id, url FROM photos WHERE url = 'plain'`)))) == 1, "but the row is written")
	} else {
		ok(err == nil && id > odd, "not registered, a bigint is read")
	}
	done()
}
