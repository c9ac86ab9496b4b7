package identity

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const (
	ourRole   = "arn:aws:iam::123456789012:role/KarpenterNodeRole-harbor"
	theirRole = "arn:aws:iam::123456789012:role/eksctl-harbor-NodeInstanceRole-1AB"
	adminRole = "arn:aws:iam::123456789012:role/admin"
)

// Rows as EKS and eksctl write them, as the user guide does, and as Terraform's yamlencode does.
const (
	rowsOfEKS = `- groups:
  - system:bootstrappers
  - system:nodes
  rolearn: ` + theirRole + `
  username: system:node:{{EC2PrivateDNSName}}
`
	rowsByHand = `# nodes
  - rolearn: ` + theirRole + `   # do not touch
    username: system:node:{{EC2PrivateDNSName}}
    groups: [system:bootstrappers, "system:nodes"]

  # people
  - rolearn: ` + adminRole + `
    username: 'admin:{{SessionName}}'
    groups:
      - system:masters
`
	rowsOfTerraform = `- "groups":
  - "system:bootstrappers"
  - "system:nodes"
  "rolearn": "` + theirRole + `"
  "username": "system:node:{{EC2PrivateDNSName}}"
`
	rowsInJSON = `[{"rolearn":"` + theirRole + `","username":"system:node:{{EC2PrivateDNSName}}","groups":["system:bootstrappers","system:nodes"]}]`
)

const ourRow = `- groups:
  - system:bootstrappers
  - system:nodes
  rolearn: ` + ourRole + `
  username: system:node:{{EC2PrivateDNSName}}
`

const ourRowInJSON = `{"groups":["system:bootstrappers","system:nodes"],"rolearn":"` + ourRole + `","username":"system:node:{{EC2PrivateDNSName}}"}`

func indented(text string) string {
	return "  " + strings.TrimSuffix(strings.ReplaceAll(text, "\n", "\n  "), "  ")
}

func TestRowsKeepEveryByte(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		want   string
	}{
		"Nothing":         {"a ConfigMap without mapRoles", "", ourRow},
		"EKS":             {"as EKS writes it", rowsOfEKS, rowsOfEKS + ourRow},
		"ByHand":          {"comments, flow lists, indentation", rowsByHand, rowsByHand + indented(ourRow)},
		"Terraform":       {"quoted keys", rowsOfTerraform, rowsOfTerraform + ourRow},
		"NoLastNewline":   {"the last row ends without one, and so does the new one", strings.TrimSuffix(rowsOfEKS, "\n"), rowsOfEKS + strings.TrimSuffix(ourRow, "\n")},
		"EmptyLines":      {"after the last row", rowsOfEKS + "\n\n", rowsOfEKS + "\n\n" + ourRow},
		"CommentAtTheEnd": {"somebody's", rowsOfEKS + "# end\n", rowsOfEKS + "# end\n" + ourRow},
		"Comments":        {"no row yet", "# none yet\n", "# none yet\n" + ourRow},
		"DocumentStart":   {"three dashes are no row", "---\n" + rowsOfEKS, "---\n" + rowsOfEKS + ourRow},
		"CarriageReturns": {"an editor of another system", strings.ReplaceAll(rowsOfEKS, "\n", "\r\n"), strings.ReplaceAll(rowsOfEKS, "\n", "\r\n") + ourRow},
		"BlockScalar":     {"a dash in a text is no row", "- rolearn: " + adminRole + "\n  username: |-\n    - a\n    - b\n", "- rolearn: " + adminRole + "\n  username: |-\n    - a\n    - b\n" + ourRow},
		"DashAlone":       {"a row that begins on the next line", "-\n  rolearn: " + adminRole + "\n", "-\n  rolearn: " + adminRole + "\n" + ourRow},
		"JSON":            {"a list in brackets", rowsInJSON, strings.TrimSuffix(rowsInJSON, "]") + ", " + ourRowInJSON + "]"},
		"EmptyJSON":       {"an empty one", "[]\n", "[" + ourRowInJSON + "]\n"},
		"JSONOnLines":     {"over several lines", "[\n  {\"rolearn\": \"" + adminRole + "\"}\n]\n", "[\n  {\"rolearn\": \"" + adminRole + "\"}\n, " + ourRowInJSON + "]\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before, err := parseRoles(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			text, err := before.with(ourRole)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, text); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			after, err := parseRoles(text)
			if err != nil {
				t.Fatal(err)
			}
			i := after.find(ourRole)
			if i != len(before.rows) || !after.rows[i].asWritten() {
				t.Fatalf("%s: the row is found at %d of %d", tc.reason, i, len(after.rows))
			}
			back, err := after.without(i)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.text, back); diff != "" {
				t.Errorf("%s: taken out again: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// Somebody's rows around castoff's, in a list that EKS has written anew since.
func TestRowIsTakenOutOfTheMiddle(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		want   string
	}{
		"First":   {"the next row keeps its comment", ourRow + "\n# people\n" + rowsOfEKS, "\n# people\n" + rowsOfEKS},
		"Middle":  {"both neighbours stay", rowsOfEKS + ourRow + rowsOfTerraform, rowsOfEKS + rowsOfTerraform},
		"Twice":   {"the last one counts, and goes first", ourRow + rowsOfEKS + ourRow, ourRow + rowsOfEKS},
		"Sorted":  {"keys in another order", rowsOfEKS + "- rolearn: " + ourRole + "\n  groups: [system:nodes, system:bootstrappers]\n  username: system:node:{{EC2PrivateDNSName}}\n", rowsOfEKS},
		"InJSON":  {"before another row", "[" + ourRowInJSON + ", {\"rolearn\":\"" + adminRole + "\"}]", "[{\"rolearn\":\"" + adminRole + "\"}]"},
		"Deeper":  {"nested lists are no rows", rowsByHand + indented(ourRow) + "  - rolearn: x\n    groups:\n    - a\n    - b\n", rowsByHand + "  - rolearn: x\n    groups:\n    - a\n    - b\n"},
		"Comment": {"one inside the row goes with it", "- rolearn: " + ourRole + "\n  # hers\n  groups: [system:nodes, system:bootstrappers]\n  username: system:node:{{EC2PrivateDNSName}}\n" + rowsOfEKS, rowsOfEKS},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m, err := parseRoles(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := m.without(m.find(ourRole))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestRowsThatAreNotEdited(t *testing.T) {
	malformed := map[string]string{
		"Mapping": "rolearn: " + adminRole + "\n", "Text": "all of them", "Broken": "- rolearn: [\n", "Tabs": "-\trolearn: a\n\t- b: c\n", "Scalars": "- a\n- b\n",
	}
	for name, text := range malformed {
		t.Run(name, func(t *testing.T) {
			if m, err := parseRoles(text); err == nil {
				t.Errorf("%q was read as %v", text, m.rows)
			}
		})
	}
	uneditable := map[string]string{
		"TwoDocuments": rowsOfEKS + "---\n" + rowsOfTerraform, "EndOfDocument": rowsOfEKS + "...\n", "Null": "null\n", "TrailingComma": `[{"rolearn": "a"},]`, "BracketInComment": "[{\"rolearn\": \"a\"}] # [x]\n",
	}
	for name, text := range uneditable {
		t.Run(name, func(t *testing.T) {
			m, err := parseRoles(text)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := m.with(ourRole); !errors.Is(err, errUneditable) {
				t.Errorf("%q became %q, error %v", text, got, err)
			}
		})
	}
	foreign, err := parseRoles("[{\"rolearn\": \"" + ourRole + "\"}]")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := foreign.without(0); !errors.Is(err, errUneditable) {
		t.Errorf("a row in brackets that castoff did not write was taken out: %q, error %v", got, err)
	}
}

func TestRowLetsNodesIn(t *testing.T) {
	row := func(change func(mapRow)) mapRow {
		r := newRow(ourRole)
		change(r)
		return r
	}
	cases := map[string]struct {
		reason   string
		row      mapRow
		in, ours bool
	}{
		"Written":      {"as castoff writes it", newRow(ourRole), true, true},
		"MoreGroups":   {"its user gave it more: it serves, and is theirs", row(func(r mapRow) { r["groups"] = []any{"dashboards", "system:nodes", "system:bootstrappers"} }), true, false},
		"MoreKeys":     {"the same", row(func(r mapRow) { r["note"] = "x" }), true, false},
		"OtherUser":    {"the API server would not know the node", row(func(r mapRow) { r["username"] = "node" }), false, false},
		"OneGroup":     {"half of what a node needs", row(func(r mapRow) { r["groups"] = []any{"system:nodes"} }), false, false},
		"GroupsAsText": {"no list", row(func(r mapRow) { r["groups"] = "system:nodes" }), false, false},
		"Empty":        {"nothing at all", mapRow{}, false, false},
		"Nil":          {"a dash and nothing behind it", nil, false, false},
		"NumberAsUser": {"no text", row(func(r mapRow) { r["username"] = 1.0 }), false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if in, ours := tc.row.letsNodesIn(), tc.row.asWritten(); in != tc.in || ours != tc.ours {
				t.Errorf("%s: lets nodes in %v, as written %v; want %v, %v", tc.reason, in, ours, tc.in, tc.ours)
			}
		})
	}
}

// Whatever the text, an edit keeps every row, or is refused; and adding and taking out gives the text back.
func TestRowsOfAnyShape(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{rowsOfEKS, rowsOfTerraform, "# comment\n", "\n", "-\n  rolearn: " + adminRole + "\n", "- rolearn: x\n  groups:\n  - a\n", "- {rolearn: y, groups: [b]}\n", "---\n", "- rolearn: |\n    - z\n", " \n", "  # deep\n", "...\n", "[]\n"}
	edited := 0
	for range 3000 {
		text := ""
		for range random.IntN(6) {
			text += pieces[random.IntN(len(pieces))]
		}
		m, err := parseRoles(text)
		if err != nil {
			continue
		}
		with, err := m.with(ourRole)
		if err != nil {
			continue
		}
		edited++
		after, err := parseRoles(with)
		if err != nil || !cmp.Equal(m.rows, after.rows[:len(m.rows)], cmpopts.EquateEmpty()) {
			t.Fatalf("%q became %q: error %v", text, with, err)
		}
		if !after.flow() && !strings.HasPrefix(with, text) {
			t.Fatalf("%q became %q: its bytes are not at the beginning", text, with)
		}
		if back, err := after.without(len(m.rows)); err != nil || back != text {
			t.Fatalf("%q became %q and then %q: error %v", text, with, back, err)
		}
	}
	if edited < 1000 {
		t.Errorf("%d texts were edited; too few to prove anything", edited)
	}
}
