package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// The row by which aws-auth lets the nodes of a role in (EKS user guide, "Grant IAM users access to Kubernetes with a
// ConfigMap"; aws-iam-authenticator fills in the instance's name).
const nodeUsername = "system:node:{{EC2PrivateDNSName}}"

var nodeGroups = []string{"system:bootstrappers", "system:nodes"}

// mapRow is a row of mapRoles. What it holds beyond castoff's three keys is somebody's, and kept.
type mapRow map[string]any

func (r mapRow) text(key string) string {
	s, _ := r[key].(string) // anything else is no name
	return s
}

func (r mapRow) groups() (out []string) {
	list, _ := r["groups"].([]any)
	for _, g := range list {
		out = append(out, fmt.Sprint(g))
	}
	return out
}

// of says whether the row is the role's. The authenticator does not tell upper case from lower.
func (r mapRow) of(roleARN string) bool { return strings.EqualFold(r.text("rolearn"), roleARN) }

// letsNodesIn says whether nodes of the row's role can join.
func (r mapRow) letsNodesIn() bool {
	have := r.groups()
	return r.text("username") == nodeUsername && !slices.ContainsFunc(nodeGroups, func(g string) bool { return !slices.Contains(have, g) })
}

// asWritten says whether the row is just as castoff writes it, in whatever order: nobody gave it anything more.
func (r mapRow) asWritten() bool {
	return r.letsNodesIn() && len(r) == 3 && len(r.groups()) == len(nodeGroups)
}

func newRow(roleARN string) mapRow {
	groups := []any{}
	for _, g := range nodeGroups {
		groups = append(groups, g)
	}
	return mapRow{"groups": groups, "rolearn": roleARN, "username": nodeUsername}
}

// rolesMap is the text of mapRoles and its rows. It is edited as text: rows that are not castoff's keep every byte, with
// their comments and their order.
type rolesMap struct {
	text string
	rows []mapRow
}

func parseRoles(text string) (rolesMap, error) {
	m := rolesMap{text: text}
	if err := yaml.Unmarshal([]byte(text), &m.rows); err != nil {
		return m, fmt.Errorf("it is no YAML list of rows: %w", err)
	}
	return m, nil
}

// find gives the index of the role's row, -1 without one. Of several the last one counts, as for the authenticator.
func (m rolesMap) find(roleARN string) int {
	for i, r := range slices.Backward(m.rows) {
		if r.of(roleARN) {
			return i
		}
	}
	return -1
}

// errUneditable: the text is a list, but written in a way that castoff does not know how to edit without touching the rest.
var errUneditable = errors.New("it is written in a form that castoff cannot edit without touching other rows")

// with adds the role's row at the end. The result is read again and compared: an edit that would change anything else is
// refused.
func (m rolesMap) with(roleARN string) (string, error) {
	edited, row := "", newRow(roleARN)
	if m.flow() {
		edited = m.insertFlow(flowRow(row))
	} else {
		edited = appendLines(m.text, blockRow(row, m.indent()))
	}
	return verified(edited, append(slices.Clone(m.rows), row))
}

// without takes out the row of that index, and refuses what would change anything else.
func (m rolesMap) without(i int) (string, error) {
	left := slices.Delete(slices.Clone(m.rows), i, i+1)
	if !m.flow() {
		return verified(m.cutLines(i), left)
	}
	own := flowRow(m.rows[i])
	for _, piece := range []string{", " + own, own + ", ", own} {
		if strings.Contains(m.text, piece) {
			return verified(strings.Replace(m.text, piece, "", 1), left)
		}
	}
	return "", errUneditable
}

func verified(text string, want []mapRow) (string, error) {
	got, err := parseRoles(text)
	if err != nil || len(got.rows) != len(want) {
		return "", errUneditable
	}
	for i := range want {
		if !reflect.DeepEqual(got.rows[i], want[i]) {
			return "", errUneditable
		}
	}
	return text, nil
}

// flow says whether the list is written in brackets, as tools do that write JSON.
func (m rolesMap) flow() bool {
	for line := range strings.Lines(m.text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && line != "---" {
			return strings.HasPrefix(line, "[")
		}
	}
	return false
}

func (m rolesMap) insertFlow(row string) string {
	end := strings.LastIndexByte(m.text, ']')
	if end < 0 {
		return ""
	}
	if len(m.rows) > 0 {
		row = ", " + row
	}
	return m.text[:end] + row + m.text[end:]
}

func flowRow(r mapRow) string {
	b, err := json.Marshal(r)
	if err != nil {
		return "" // it came from JSON, or is made of strings
	}
	return string(b)
}

// itemIndent is the indentation of a line that begins a row, -1 for any other.
func itemIndent(line string) int {
	body := strings.TrimLeft(line, " ")
	if strings.HasPrefix(body, "- ") || strings.TrimSpace(body) == "-" {
		return len(line) - len(body)
	}
	return -1
}

// indent is that of the rows: the first dash of a list is its own.
func (m rolesMap) indent() int {
	for line := range strings.Lines(m.text) {
		if n := itemIndent(line); n >= 0 {
			return n
		}
	}
	return 0
}

func blockRow(r mapRow, indent int) string {
	lines := []string{"- groups:"}
	for _, g := range r.groups() {
		lines = append(lines, "  - "+g)
	}
	lines = append(lines, "  rolearn: "+r.text("rolearn"), "  username: "+r.text("username"))
	pad := strings.Repeat(" ", indent)
	return pad + strings.Join(lines, "\n"+pad) + "\n"
}

// appendLines ends with a newline only if the text did, so that taking the row out again restores every byte.
func appendLines(text, row string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text + row
	}
	return text + "\n" + strings.TrimSuffix(row, "\n")
}

// cutLines takes out the lines of the row of that index. Comments and empty lines before the next row are that one's.
func (m rolesMap) cutLines(index int) string {
	lines, indent := slices.Collect(strings.Lines(m.text)), m.indent()
	from, to, seen := -1, len(lines), -1
	for i, line := range lines {
		if itemIndent(line) != indent {
			continue
		}
		if seen++; seen == index {
			from = i
		} else if seen == index+1 {
			to = i
		}
	}
	if from < 0 {
		return ""
	}
	for to > from+1 && isComment(lines[to-1]) {
		to--
	}
	before, after := strings.Join(lines[:from], ""), strings.Join(lines[to:], "")
	if after == "" && !strings.HasSuffix(m.text, "\n") {
		before = strings.TrimSuffix(before, "\n")
	}
	return before + after
}

func isComment(line string) bool {
	body := strings.TrimSpace(line)
	return body == "" || strings.HasPrefix(body, "#")
}
