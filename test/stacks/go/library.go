// library.go -- what the programs of this directory share: the assertions, as TAP
//
// A program is "package main" with this file.  It says what a Photo is, and fills a
// library with the functions that the page shows, for a database with the tables of
// tables.sql.

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

type library struct {
	add      func(url string) (int64, error)
	put      func(photo Photo) error
	find     func(id int64) (string, error)
	findText func(id string) (string, error)
	findMany func(ids []int64) ([]Photo, error)
	page     func(last int64, size int) ([]Photo, error)
	since    func(from time.Time) ([]Photo, error)
	fetchIDs func(n int) ([]int64, error)
	album    func(name string, ids []int64) ([]int64, error) // store, and read again; not in each library
	exec     func(statement string) error
	comments func() ([][]*int64, error) // what commentsOfPhotos gives
}

// In JSON an id is a string, also in a slice, where the option "string" does nothing.
type ID int64

func (id ID) MarshalText() ([]byte, error) {
	return strconv.AppendInt(nil, int64(id), 10), nil
}

func (id *ID) UnmarshalText(text []byte) error {
	value, err := strconv.ParseInt(string(text), 10, 64)
	*id = ID(value)
	return err
}

// A photo with two comments, and one without any: to a double their ids are all the same.
var related = fmt.Sprintf(`INSERT INTO photos VALUES (%[1]d, 'a'), (%[2]d, 'b'); INSERT INTO comments VALUES (%[3]d, %[1]d), (%[4]d, %[1]d)`,
	odd+10, odd+12, odd+14, odd+16)

const commentsOfPhotos = `SELECT array_agg(c.id ORDER BY c.id) FROM photos p LEFT JOIN comments c ON c.photo = p.id
	WHERE p.url IN ('a', 'b') GROUP BY p.id ORDER BY p.id`

// A double does not hold it: 175928847299117056 is what it makes of it.
const odd = 175928847299117063

var count int

func ok(good bool, name string) {
	count++
	if good {
		fmt.Printf("ok %d - %s\n", count, name)
	} else {
		fmt.Printf("not ok %d - %s\n", count, name)
	}
}

func must[T any](value T, err error) T {
	mustDo(err)
	return value
}

func mustDo(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Is the column of ids a snowflake, or a bigint?
func isSnowflake() bool {
	return os.Getenv("COLUMN") == "snowflake"
}

func done() {
	fmt.Printf("1..%d\n", count)
}

func (lib library) test() {
	began := time.Now().Add(-time.Minute)

	first := must(lib.add("first"))
	second := must(lib.add("second"))
	ok(second > first && first > odd, "an id is an int64, and ids increase")
	ok(must(lib.find(second)) == "second", "a row is found by it")
	ok(must(lib.findText(fmt.Sprint(first))) == "first", "and by text")

	mustDo(lib.put(Photo{odd, "discord"}))
	ok(must(lib.find(odd)) == "discord", "a row with a given id is found")
	ok(must(lib.find(odd-7)) == "", "and only by all its digits")
	ok(slices.Equal(must(lib.findMany([]int64{second, odd})), []Photo{{odd, "discord"}, {second, "second"}}),
		"rows are found by an array, with all digits")
	if lib.album != nil {
		ok(slices.Equal(must(lib.album("mine", []int64{second, odd})), []int64{second, odd}), "an array of ids comes back as it was")
	}
	ok(slices.Equal(must(lib.since(began)), []Photo{{first, "first"}, {second, "second"}}), "rows are found by time")

	ids := must(lib.fetchIDs(1000))
	ok(len(ids) == 1000 && slices.IsSorted(ids) && ids[0] > second && len(slices.Compact(ids)) == 1000,
		"a thousand ids fetched ahead are different, and in order")
	mustDo(lib.put(Photo{ids[999], "fetched"}))
	ok(must(lib.find(ids[999])) == "fetched", "and one is used")

	var seen []int64
	for last := int64(1<<63 - 1); ; {
		page := must(lib.page(last, 3))
		if len(page) == 0 {
			break
		}
		for _, photo := range page {
			seen = append(seen, photo.ID)
		}
		last = page[len(page)-1].ID
	}
	ok(slices.Equal(seen, []int64{ids[999], second, first, odd}), "pages show each row once, newest first")

	text := must(json.Marshal(must(lib.findMany([]int64{odd}))))
	ok(string(text) == `[{"id":"175928847299117063","url":"discord"}]`, "JSON has the id as a string")
	var back []Photo
	mustDo(json.Unmarshal(text, &back))
	ok(back[0].ID == odd, "and it is read again")
	careless := struct {
		IDs []int64 `json:"ids,string"`
	}{[]int64{odd}}
	ok(string(must(json.Marshal(careless))) == `{"ids":[175928847299117063]}`, "but the option does nothing in a slice")
	text = must(json.Marshal([]ID{odd}))
	var again []ID
	mustDo(json.Unmarshal(text, &again))
	ok(string(text) == `["175928847299117063"]` && again[0] == odd, "where a type of its own does")

	mustDo(lib.exec(related))
	comments := must(lib.comments())
	ok(len(comments) == 2 && *comments[0][0] == odd+14 && *comments[0][1] == odd+16 && len(comments[1]) == 1 && comments[1][0] == nil,
		"an array of the column's type has all digits, and a NULL")
	mustDo(lib.exec(`DELETE FROM comments; DELETE FROM photos WHERE url IN ('a', 'b')`))
}
