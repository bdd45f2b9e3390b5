// lib_pq.go -- snowflake from Go, by database/sql and lib/pq
//
// What stands in doc/languages.md is copied out of here and of sql.go.

package main

import (
	"context"
	"database/sql"

	"github.com/lib/pq"
)

// Several rows at once, with lib/pq.
func findPhotos(ctx context.Context, db *sql.DB, ids []int64) ([]Photo, error) {
	return photos(db.QueryContext(ctx,
		`SELECT id, url FROM photos WHERE id = ANY($1) ORDER BY id`, pq.Array(ids)))
}

// An array that may have a NULL
func scanArray(rows *sql.Rows) (ids []*int64, err error) {
	var values []sql.NullInt64
	err = rows.Scan(pq.Array(&values))
	for _, value := range values {
		var id *int64
		if value.Valid {
			id = &value.Int64
		}
		ids = append(ids, id)
	}
	return ids, err
}

func main() {
	ctx := context.Background()
	db := must(sql.Open("postgres", "sslmode=disable"))
	lib := sqlLibrary(ctx, db)
	lib.findMany = func(ids []int64) ([]Photo, error) { return findPhotos(ctx, db, ids) }
	lib.album = func(name string, ids []int64) (stored []int64, err error) {
		err = db.QueryRowContext(ctx, `INSERT INTO albums VALUES ($1, $2) RETURNING photos`, name, pq.Array(ids)).
			Scan(pq.Array(&stored))
		return stored, err
	}
	lib.test()
	testTimes(ctx, db)

	var value any
	mustDo(db.QueryRowContext(ctx, `SELECT id FROM photos WHERE url = 'discord'`).Scan(&value))
	if isSnowflake() {
		ok(string(value.([]byte)) == "175928847299117063", "what is read as any is digits")
	} else {
		ok(value == int64(odd), "what is read as any is an int64")
	}
	var values []int64
	mustDo(db.QueryRowContext(ctx, `SELECT array_agg(id) FROM photos WHERE url = 'discord'`).Scan(pq.Array(&values)))
	ok(len(values) == 1 && values[0] == odd, "an array of the column's type is read")

	tx := must(db.BeginTx(ctx, nil))
	copier := must(tx.PrepareContext(ctx, pq.CopyIn("photos", "id", "url")))
	must(copier.ExecContext(ctx, int64(odd+2), "copied"))
	must(copier.ExecContext(ctx))
	mustDo(copier.Close())
	mustDo(tx.Commit())
	ok(must(findPhoto(ctx, db, odd+2)) == "copied", "COPY stores each digit")
	done()
}
