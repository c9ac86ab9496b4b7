package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const isc = `Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted,
provided that the above copyright notice and this permission notice appear in all copies.

THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED
WARRANTIES OF MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT, INDIRECT, OR
CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN ACTION OF CONTRACT,
NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.
`

func TestCheck(t *testing.T) {
	type want struct{ err string }
	cases := map[string]struct {
		reason string
		files  map[string]string
		want   want
	}{
		"Allowed": {
			reason: "A licence on the list passes, whatever copyright line stands above it.",
			files:  map[string]string{"LICENSE.md": "ISC License\n\nCopyright (c) 2026 somebody\n\n" + isc},
		},
		"Documentation": {
			reason: "The licence of the documentation says nothing about the code.",
			files:  map[string]string{"LICENSE": isc, "LICENSE.docs": "SPDX-License-Identifier: CC-BY-SA-4.0\n"},
		},
		"NoFile": {
			reason: "A module without a licence file gives nobody any right.",
			files:  map[string]string{"README.md": isc},
			want:   want{err: "no licence file"},
		},
		"Unknown": {
			reason: "Text that is no known licence needs a person to read it.",
			files:  map[string]string{"LICENSE": "You may look at this on Tuesdays."},
			want:   want{err: "0 % of it"},
		},
		"NotAllowed": {
			reason: "A known licence that is not on the list fails by its name.",
			files:  map[string]string{"COPYING": "SPDX-License-Identifier: AGPL-3.0-only\n"},
			want:   want{err: "of it is text of a known licence"},
		},
		"SecondFile": {
			reason: "One good file does not make up for another that is not.",
			files:  map[string]string{"LICENSE": isc, "LICENSE.txt": "All rights reserved."},
			want:   want{err: "LICENSE.txt: 0 %"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range tc.files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			switch err := check(dir); {
			case tc.want.err == "" && err != nil:
				t.Errorf("\n%s\ncheck(): unexpected error: %v", tc.reason, err)
			case tc.want.err != "" && (err == nil || !strings.Contains(err.Error(), tc.want.err)):
				t.Errorf("\n%s\ncheck(): want error with %q, got %v", tc.reason, tc.want.err, err)
			}
		})
	}
}
