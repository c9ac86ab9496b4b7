// Package controllers is the imperative shell: load the Migration, observe the world through the ports, ask plan.Next,
// record, act, report. It decides nothing itself and never names a phase.
package controllers
