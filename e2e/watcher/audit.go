package watcher

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// tail follows a file of JSON lines that grows.
type tail struct {
	file    *os.File
	reader  *bufio.Reader
	partial []byte
}

// openTail begins at the file's present end.
func openTail(path string) (*tail, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		return nil, errors.Join(fmt.Errorf("finding the end of the audit log: %w", err), file.Close())
	}
	return &tail{file: file, reader: bufio.NewReaderSize(file, 1<<20)}, nil
}

// read hands over what has been written since, whole lines only. A line that is no event is an error.
func (t *tail) read(handle func(AuditEvent)) error {
	for {
		piece, err := t.reader.ReadBytes('\n')
		t.partial = append(t.partial, piece...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the audit log: %w", err)
		}
		var event AuditEvent
		if err := json.Unmarshal(t.partial, &event); err != nil {
			return fmt.Errorf("parsing a line of the audit log: %w", err)
		}
		t.partial = t.partial[:0]
		handle(event)
	}
}

// follow reads until ctx ends.
func (t *tail) follow(ctx context.Context, every time.Duration, handle func(AuditEvent)) error {
	defer t.file.Close()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := t.read(handle); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
