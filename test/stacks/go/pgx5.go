// pgx5.go -- snowflake from Go, by pgx 5
//
// What stands in doc/languages.md is copied out of here.

package main

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// In JSON an id is a string: a number of JavaScript has 53 bits.
type Photo struct {
	ID  int64  `json:"id,string"`
	URL string `json:"url"`
}

// A pool whose connections know that a snowflake is an int8.
func connect(ctx context.Context) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		var oid, array uint32
		err := conn.QueryRow(ctx,
			`SELECT oid, typarray FROM pg_type WHERE oid = 'snowflake'::regtype`).Scan(&oid, &array)
		if err != nil {
			return err
		}
		id := &pgtype.Type{Name: "snowflake", OID: oid, Codec: pgtype.Int8Codec{}}
		ids := &pgtype.Type{Name: "_snowflake", OID: array, Codec: &pgtype.ArrayCodec{ElementType: id}}
		conn.TypeMap().RegisterTypes([]*pgtype.Type{id, ids})
		return nil
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// The id of the new row.
func addPhoto(ctx context.Context, db *pgxpool.Pool, url string) (id int64, err error) {
	err = db.QueryRow(ctx, `INSERT INTO photos (url) VALUES ($1) RETURNING id`, url).Scan(&id)
	return id, err
}

// Several rows at once.
func findPhotos(ctx context.Context, db *pgxpool.Pool, ids []int64) ([]Photo, error) {
	rows, _ := db.Query(ctx, `SELECT id, url FROM photos WHERE id = ANY($1) ORDER BY id`, ids)
	return pgx.CollectRows(rows, pgx.RowToStructByName[Photo])
}

// A page of the table, newest first; the first one starts below math.MaxInt64.
func page(ctx context.Context, db *pgxpool.Pool, last int64, size int) ([]Photo, error) {
	rows, _ := db.Query(ctx, `SELECT id, url FROM photos WHERE id < $1 ORDER BY id DESC LIMIT $2`, last, size)
	return pgx.CollectRows(rows, pgx.RowToStructByName[Photo])
}

// The rows from a time on.
func photosSince(ctx context.Context, db *pgxpool.Pool, from time.Time) ([]Photo, error) {
	rows, _ := db.Query(ctx, `SELECT id, url FROM photos WHERE id >= snowflake_floor($1) ORDER BY id`, from)
	return pgx.CollectRows(rows, pgx.RowToStructByName[Photo])
}

// Ids for rows that are not yet written.
func fetchIDs(ctx context.Context, db *pgxpool.Pool, n int) ([]int64, error) {
	rows, _ := db.Query(ctx, `SELECT snowflake_nextval() FROM generate_series(1, $1)`, n)
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// Many rows by COPY.
func copyPhotos(ctx context.Context, db *pgxpool.Pool, photos []Photo) error {
	_, err := db.CopyFrom(ctx, pgx.Identifier{"photos"}, []string{"id", "url"},
		pgx.CopyFromSlice(len(photos), func(i int) ([]any, error) {
			return []any{photos[i].ID, photos[i].URL}, nil
		}))
	return err
}

func findPhoto(ctx context.Context, db *pgxpool.Pool, id any) (url string, err error) {
	err = db.QueryRow(ctx, `SELECT url FROM photos WHERE id = $1`, id).Scan(&url)
	if err == pgx.ErrNoRows {
		return "", nil
	}
	return url, err
}

func test(ctx context.Context, db *pgxpool.Pool) {
	library{
		add: func(url string) (int64, error) { return addPhoto(ctx, db, url) },
		put: func(photo Photo) error {
			_, err := db.Exec(ctx, `INSERT INTO photos (id, url) VALUES ($1, $2)`, photo.ID, photo.URL)
			return err
		},
		find:     func(id int64) (string, error) { return findPhoto(ctx, db, id) },
		findText: func(id string) (string, error) { return findPhoto(ctx, db, id) },
		findMany: func(ids []int64) ([]Photo, error) { return findPhotos(ctx, db, ids) },
		page:     func(last int64, size int) ([]Photo, error) { return page(ctx, db, last, size) },
		since:    func(from time.Time) ([]Photo, error) { return photosSince(ctx, db, from) },
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
		comments: func() ([][]*int64, error) {
			rows, _ := db.Query(ctx, commentsOfPhotos)
			return pgx.CollectRows(rows, pgx.RowTo[[]*int64])
		},
	}.test()
	must(db.Exec(ctx, `TRUNCATE photos, albums CASCADE`))
	mustDo(copyPhotos(ctx, db, []Photo{{odd, "one"}}))
	ok(must(findPhoto(ctx, db, int64(odd))) == "one", "COPY stores each digit")
	var ids []int64
	mustDo(db.QueryRow(ctx, `SELECT array_agg(id) FROM photos`).Scan(&ids))
	ok(len(ids) == 1 && ids[0] == odd, "an array of the column's type is read")
}

func main() {
	ctx := context.Background()
	var value any

	db := must(connect(ctx))
	test(ctx, db)
	mustDo(db.QueryRow(ctx, `SELECT id FROM photos`).Scan(&value))
	ok(value == int64(odd), "what is read as any is an int64")
	_, err := db.Exec(ctx, `SELECT FROM photos WHERE id >= $1`, time.Now())
	ok(err != nil, "a time that is not told to be one is refused")
	if isSnowflake() {
		must(db.Exec(ctx, `SELECT FROM photos WHERE id >= $1::timestamptz`, time.Now()))
		ok(true, "with the cast it is taken")
	}

	// behind an old PgBouncer
	must(db.Exec(ctx, `TRUNCATE photos CASCADE`))
	config := must(pgxpool.ParseConfig("default_query_exec_mode=simple_protocol"))
	test(ctx, must(pgxpool.NewWithConfig(ctx, config)))

	// without the registration
	must(db.Exec(ctx, `TRUNCATE photos CASCADE`))
	plain := must(pgxpool.New(ctx, ""))
	test(ctx, plain)
	if isSnowflake() {
		mustDo(plain.QueryRow(ctx, `SELECT id FROM photos`).Scan(&value))
		ok(value == "175928847299117063", "not registered, what is read as any is a string")
	}
	done()
}
