package awssim

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castoff-sh/castoff/e2e/awssim/simapi"
)

// thing has everything that a deep copy must take apart.
type thing struct {
	Name   string
	Tags   map[string]string
	List   []*string
	Nested *thing
	At     time.Time
}

func TestTableShowsThePast(t *testing.T) {
	s, _ := newTestServer(t, Options{})
	rows := newTable[thing](s)
	write := func(after time.Duration, f func()) {
		s.Advance(after)
		do(s, f)
	}
	write(0, func() { rows.put("a", thing{Name: "first"}) })
	write(time.Second, func() { rows.put("a", thing{Name: "second"}); rows.put("b", thing{Name: "other"}) })
	write(time.Second, func() { rows.delete("a") })
	write(time.Second, func() { rows.put("a", thing{Name: "again"}) })

	cases := map[string]struct {
		reason string
		at     time.Duration
		want   []string
	}{
		"BeforeAll":   {"nothing was there yet", -time.Second, nil},
		"AtTheWrite":  {"a write is seen from its own moment on", 0, []string{"first"}},
		"Between":     {"the old world lasts until the next write", 1500 * time.Millisecond, []string{"second", "other"}},
		"Deleted":     {"a deleted row is gone from then on", 2 * time.Second, []string{"other"}},
		"PutAgain":    {"a row that comes back keeps its place", 3 * time.Second, []string{"again", "other"}},
		"FarIntoTime": {"the future is what is now", time.Hour, []string{"again", "other"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			do(s, func() {
				for _, x := range rows.asOf(epoch.Add(tc.at)).where(nil) {
					got = append(got, x.Name)
				}
			})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestTableKeepsItsOwnCopies(t *testing.T) {
	s, _ := newTestServer(t, Options{})
	rows := newTable[thing](s)
	fresh := func() thing {
		text := "x"
		return thing{Name: "a", Tags: map[string]string{"k": "v"}, List: []*string{&text, nil}, Nested: &thing{Name: "inner", Tags: map[string]string{}}, At: epoch}
	}
	spoil := func(x *thing) {
		x.Name, x.Tags["k"], *x.List[0], x.Nested.Name = "spoilt", "spoilt", "spoilt", "spoilt"
	}
	do(s, func() {
		given := fresh()
		rows.put("a", given)
		spoil(&given)
		got, _ := rows.get("a")
		spoil(&got)
		spoil(&rows.list()[0])
		rows.asOf(s.now()).where(func(x *thing) bool { return x.Name == "a" })
		if got, ok := rows.get("a"); !ok || cmp.Diff(fresh(), got) != "" {
			t.Errorf("what callers do to their values must not reach the table: %s", cmp.Diff(fresh(), got))
		}
		if !rows.update("a", func(x *thing) { x.Name = "b" }) || rows.update("none", func(*thing) {}) {
			t.Error("update must tell whether there was something to change")
		}
		if got, _ := rows.get("a"); got.Name != "b" || got.Tags["k"] != "v" {
			t.Errorf("update must change what it was told to and nothing else: %+v", got)
		}
	})
}

func TestTableForgetsWhatNobodyCanSee(t *testing.T) {
	s, _ := newTestServer(t, Options{Settings: simapi.Settings{Lag: 2 * time.Minute}})
	rows := newTable[thing](s)
	for i := range 50 {
		s.Advance(10 * time.Second)
		do(s, func() {
			rows.put(fmt.Sprint(i), thing{})
			rows.put("kept", thing{Name: fmt.Sprint(i)})
			rows.delete(fmt.Sprint(i))
		})
	}
	if n := len(rows.keys); n > 30 || n != len(rows.rows) {
		t.Errorf("of 50 rows deleted long ago %d keys and %d rows are left", n, len(rows.rows))
	}
	if n := len(rows.rows["kept"].versions); n < 12 || n > 15 {
		t.Errorf("a row written every 10 s must keep the versions of the lag, two minutes, and no more: has %d", n)
	}
}

func TestWhatAWorldBeginsWithDoesNotLag(t *testing.T) {
	s, _ := newTestServer(t, Options{Settings: simapi.Settings{Lag: time.Hour}})
	do(s, func() {
		c := &call{s: s}
		if n := len(s.ec2.images.asOf(c.readTime()).where(nil)); n == 0 {
			t.Error("the public images must be there from the start, whatever the lag")
		}
	})
}
