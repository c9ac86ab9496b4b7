package simapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Client walks through the side door of a simulator. It is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
}

// NewClient talks to the simulator at that address, e.g. http://127.0.0.1:4566.
func NewClient(address string) *Client {
	return &Client{base: strings.TrimSuffix(address, "/"), http: &http.Client{}}
}

// Health fails until the simulator serves.
func (c *Client) Health(ctx context.Context) error {
	return c.do(ctx, http.MethodGet, PathHealth, nil, nil)
}

// Calls lists the AWS requests after that sequence number, oldest first; 0 lists all.
func (c *Client) Calls(ctx context.Context, after int64) (calls []Call, err error) {
	err = c.do(ctx, http.MethodGet, PathCalls+"?after="+strconv.FormatInt(after, 10), nil, &calls)
	return calls, err
}

// Instances lists every EC2 instance, ended ones too.
func (c *Client) Instances(ctx context.Context) (instances []Instance, err error) {
	err = c.do(ctx, http.MethodGet, PathInstances, nil, &instances)
	return instances, err
}

// Groups lists every Auto Scaling group.
func (c *Client) Groups(ctx context.Context) (groups []Group, err error) {
	err = c.do(ctx, http.MethodGet, PathGroups, nil, &groups)
	return groups, err
}

// Settings returns how the world behaves.
func (c *Client) Settings(ctx context.Context) (s Settings, err error) {
	err = c.do(ctx, http.MethodGet, PathSettings, nil, &s)
	return s, err
}

// SetSettings replaces how the world behaves, all of it.
func (c *Client) SetSettings(ctx context.Context, s Settings) error {
	return c.do(ctx, http.MethodPut, PathSettings, s, nil)
}

// Faults lists the faults that are armed.
func (c *Client) Faults(ctx context.Context) (faults []Fault, err error) {
	err = c.do(ctx, http.MethodGet, PathFaults, nil, &faults)
	return faults, err
}

// AddFault arms a fault and returns it with its ID.
func (c *Client) AddFault(ctx context.Context, f Fault) (added Fault, err error) {
	err = c.do(ctx, http.MethodPost, PathFaults, f, &added)
	return added, err
}

// RemoveFault disarms the fault with that ID, or all of them when it is empty.
func (c *Client) RemoveFault(ctx context.Context, id string) error {
	path := PathFaults
	if id != "" {
		path += "?id=" + url.QueryEscape(id)
	}
	return c.do(ctx, http.MethodDelete, path, nil, nil)
}

// Advance moves the simulator's clock forward; it returns when all that became due has happened.
func (c *Client) Advance(ctx context.Context, step ClockStep) error {
	return c.do(ctx, http.MethodPost, PathClock, step, nil)
}

// Interrupt makes something happen to an instance from outside.
func (c *Client) Interrupt(ctx context.Context, i Interrupt) error {
	return c.do(ctx, http.MethodPost, PathInterrupt, i, nil)
}

// Reset forgets everything.
func (c *Client) Reset(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, PathReset, nil, nil)
}

// Events calls handle for every instance, then with Synced, then for each change as it happens. It returns the
// context's error when that ends, handle's when it fails, and io.ErrUnexpectedEOF when the simulator goes away.
func (c *Client) Events(ctx context.Context, handle func(Event) error) error {
	resp, err := c.send(ctx, http.MethodGet, PathEvents, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("reading the simulator's events: %w", io.ErrUnexpectedEOF)
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("parsing the simulator's event %q: %w", line, err)
		}
		if err := handle(e); err != nil {
			return err
		}
	}
}

// do sends in and parses the answer into out; either may be nil.
func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	resp, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("parsing the simulator's answer to %s %s: %w", method, path, err)
	}
	return nil
}

// send returns the response only when it is a good one; the caller closes its body.
func (c *Client) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encoding %T for the simulator: %w", in, err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("asking the simulator at %s: %w", c.base, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the simulator: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // only for the message
	return nil, fmt.Errorf("%s %s: the simulator answered %s: %s", method, path, resp.Status, strings.TrimSpace(string(text)))
}
