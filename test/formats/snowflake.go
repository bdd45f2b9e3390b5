// Reading ids in Go.  What stands in doc/formats.md is copied out of here.
//
// Reads lines of layout and id, and writes them with time, shard and sequence
// number.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Layout has epoch and tick in milliseconds, and where the shard and the sequence number are.
type Layout struct {
	Epoch, Tick                 int64
	ShardShift, ShardBits       uint
	SequenceShift, SequenceBits uint
}

var layouts = map[string]Layout{
	"twitter":    {1288834974657, 1, 12, 10, 0, 12},
	"discord":    {1420070400000, 1, 12, 10, 0, 12},
	"instagram":  {1314220021721, 1, 10, 13, 0, 10},
	"sonyflake":  {1409529600000, 10, 0, 16, 16, 8},
	"sonyflake2": {1735689600000, 10, 0, 16, 16, 8},
	"pgedge":     {1672531200000, 1, 12, 10, 0, 12},
	"mastodon":   {0, 1, 0, 0, 0, 16},
	"clickhouse": {0, 1, 12, 10, 0, 12},
	"pgdog":      {1764184395000, 1, 12, 10, 0, 12},

	"pgdog_compact": {1764184395000, 1, 6, 6, 0, 6},
}

// Decode gives the time, the shard and the sequence number of an id.
func Decode(id int64, l Layout) (time.Time, int64, int64) {
	ms := (id>>(l.ShardBits+l.SequenceBits))*l.Tick + l.Epoch
	shard := id >> l.ShardShift & (1<<l.ShardBits - 1)
	sequence := id >> l.SequenceShift & (1<<l.SequenceBits - 1)
	return time.UnixMilli(ms).UTC(), shard, sequence
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), ",")
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic(err)
		}
		at, shard, sequence := Decode(id, layouts[name])
		fmt.Printf("%s,%d,%s,%d,%d\n", name, id, at.Format("2006-01-02T15:04:05.000Z"), shard, sequence)
	}
}
