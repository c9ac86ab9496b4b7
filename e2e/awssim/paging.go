package awssim

import (
	"time"
)

// pageLife is how long the rest of a listing can be asked for.
const pageLife = 10 * time.Minute

// paged cuts a listing into pages of at most limit items (0: no limit). The first page decides what the later ones
// show, so that nothing is missed or shown twice because the world moved between them.
func paged[T any](s *Server, token *string, limit int32, list func() ([]T, error)) ([]T, *string, error) {
	var items []T
	if token != nil && *token != "" {
		rest, ok := s.pages[*token].([]T)
		if !ok {
			return nil, nil, errorf("InvalidNextToken", "The token '%s' is invalid", *token)
		}
		items = rest
	} else {
		all, err := list()
		if err != nil {
			return nil, nil, err
		}
		items = all
	}
	if limit <= 0 || int(limit) >= len(items) {
		return items, nil, nil
	}
	next := s.newID("page")
	s.pages[next] = items[limit:]
	s.after(pageLife, func() { delete(s.pages, next) })
	return items[:limit], &next, nil
}
