package translate

import "strings"

// operators end a command; in what a command passes on, such as an eviction threshold, they mean nothing.
const operators = ";|&<>"

// splitter is where shellWords is in a command.
type splitter struct {
	out   []string
	word  strings.Builder
	quote byte // 0 outside of quotes
	begun bool // the word may be empty, in quotes
}

// shellWords splits a command as a shell does, up to where one of the operators ends it; tail is what follows there.
func shellWords(s string, escape byte, operators string) (out []string, tail string) {
	var w splitter
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == escape && w.quote != '\'' && i+1 < len(s):
			i++
			w.add(s[i])
		case w.quoted(c):
		case strings.IndexByte(" \t\r\n", c) >= 0:
			w.end()
		case strings.IndexByte(operators, c) >= 0:
			w.end()
			return w.out, strings.TrimSpace(s[i:])
		case c == '#' && !w.begun && operators != "":
			return w.out, ""
		default:
			w.add(c)
		}
	}
	w.end()
	return w.out, ""
}

// quoted takes quotes and what is in them.
func (w *splitter) quoted(c byte) bool {
	switch {
	case w.quote != 0 && c == w.quote:
		w.quote = 0
	case w.quote != 0:
		w.add(c)
	case c == '\'' || c == '"':
		w.quote, w.begun = c, true
	default:
		return false
	}
	return true
}

func (w *splitter) add(c byte) {
	w.word.WriteByte(c)
	w.begun = true
}

func (w *splitter) end() {
	if w.begun {
		w.out = append(w.out, w.word.String())
	}
	w.word.Reset()
	w.begun = false
}
