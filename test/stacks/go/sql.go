// sql.go -- snowflake from Go, by database/sql, whatever the driver
//
// What stands in doc/languages.md is copied out of here.  lib_pq.go and pgx5_sql.go are
// the programs; they have what differs between the drivers.

package main

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
)

// In JSON an id is a string: a number of JavaScript has 53 bits.
type Photo struct {
	ID  int64  `json:"id,string"`
	URL string `json:"url"`
}

// The id of the new row.  There is no LastInsertId.
func addPhoto(ctx context.Context, db *sql.DB, url string) (id int64, err error) {
	err = db.QueryRowContext(ctx, `INSERT INTO photos (url) VALUES ($1) RETURNING id`, url).Scan(&id)
	return id, err
}

// A page of the table, newest first; the first one starts below math.MaxInt64.
func page(ctx context.Context, db *sql.DB, last int64, size int) ([]Photo, error) {
	return photos(db.QueryContext(ctx,
		`SELECT id, url FROM photos WHERE id < $1 ORDER BY id DESC LIMIT $2`, last, size))
}

// The rows from a time on.
func photosSince(ctx context.Context, db *sql.DB, from time.Time) ([]Photo, error) {
	return photos(db.QueryContext(ctx,
		`SELECT id, url FROM photos WHERE id >= snowflake_floor($1) ORDER BY id`, from))
}

// Ids for rows that are not yet written.
func fetchIDs(ctx context.Context, db *sql.DB, n int) ([]int64, error) {
	rows, err := db.QueryContext(ctx, `SELECT snowflake_nextval() FROM generate_series(1, $1)`, n)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	ids := make([]int64, 0, n)
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func photos(rows *sql.Rows, err error) ([]Photo, error) {
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

// --- The test

func findPhoto(ctx context.Context, db *sql.DB, id any) (url string, err error) {
	err = db.QueryRowContext(ctx, `SELECT url FROM photos WHERE id = $1`, id).Scan(&url)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return url, err
}

// A library but for the arrays, which each driver takes in its own way.
func sqlLibrary(ctx context.Context, db *sql.DB) library {
	return library{
		add: func(url string) (int64, error) { return addPhoto(ctx, db, url) },
		put: func(photo Photo) error {
			_, err := db.ExecContext(ctx, `INSERT INTO photos (id, url) VALUES ($1, $2)`, photo.ID, photo.URL)
			return err
		},
		find:     func(id int64) (string, error) { return findPhoto(ctx, db, id) },
		findText: func(id string) (string, error) { return findPhoto(ctx, db, id) },
		page:     func(last int64, size int) ([]Photo, error) { return page(ctx, db, last, size) },
		since:    func(from time.Time) ([]Photo, error) { return photosSince(ctx, db, from) },
		fetchIDs: func(n int) ([]int64, error) { return fetchIDs(ctx, db, n) },
		exec: func(statements string) error {
			for _, statement := range strings.Split(statements, ";") {
				if _, err := db.ExecContext(ctx, statement); err != nil {
					return err
				}
			}
			return nil
		},
		comments: func() (all [][]*int64, err error) {
			rows, err := db.QueryContext(ctx, commentsOfPhotos)
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			for rows.Next() {
				ids, err := scanArray(rows)
				if err != nil {
					return nil, err
				}
				all = append(all, ids)
			}
			return all, rows.Err()
		},
	}
}

// A time as it is sent without being told to be one.
func testTimes(ctx context.Context, db *sql.DB) {
	_, err := db.ExecContext(ctx, `SELECT FROM photos WHERE id >= $1`, time.Now())
	ok(err != nil, "a time that is not told to be one is refused")
	if isSnowflake() {
		must(db.ExecContext(ctx, `SELECT FROM photos WHERE id >= $1::timestamptz`, time.Now()))
		ok(true, "with the cast it is taken")
	}
}
