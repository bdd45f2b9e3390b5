// pgx5_sql.go -- snowflake from Go, by database/sql and pgx 5's stdlib
//
// What stands in doc/languages.md is copied out of here and of sql.go.

package main

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5/pgtype"
	_ "github.com/jackc/pgx/v5/stdlib"
)

// Several rows at once, with pgx's stdlib.
func findPhotos(ctx context.Context, db *sql.DB, ids []int64) ([]Photo, error) {
	return photos(db.QueryContext(ctx,
		`SELECT id, url FROM photos WHERE id = ANY($1) ORDER BY id`, ids))
}

// An array that may have a NULL
func scanArray(rows *sql.Rows) (ids []*int64, err error) {
	err = rows.Scan(pgtype.NewMap().SQLScanner(&ids))
	return ids, err
}

func main() {
	ctx := context.Background()
	db := must(sql.Open("pgx", ""))
	lib := sqlLibrary(ctx, db)
	lib.findMany = func(ids []int64) ([]Photo, error) { return findPhotos(ctx, db, ids) }
	lib.album = func(name string, ids []int64) (stored []int64, err error) {
		err = db.QueryRowContext(ctx, `INSERT INTO albums VALUES ($1, $2) RETURNING photos`, name, ids).
			Scan(pgtype.NewMap().SQLScanner(&stored))
		return stored, err
	}
	lib.test()
	testTimes(ctx, db)

	var value any
	mustDo(db.QueryRowContext(ctx, `SELECT id FROM photos WHERE url = 'discord'`).Scan(&value))
	if isSnowflake() {
		ok(value == "175928847299117063", "what is read as any is digits")
	} else {
		ok(value == int64(odd), "what is read as any is an int64")
	}
	done()
}
