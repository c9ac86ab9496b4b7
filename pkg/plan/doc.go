// Package plan is castoff's functional core: Next looks at what was seen of the world and says what to do now, and why
// nothing more can be done. It has no client, no context, no clock and no randomness, and the phase that it answers is
// derived, never believed. Start reading at Next.
package plan
