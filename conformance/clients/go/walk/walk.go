// Package walk is what the walks share: their options, their cases and the verdicts.
package walk

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"time"
)

// Options are what a walk is told.
type Options struct {
	Endpoint, Certificate, User, Password, Compressors string
}

// Read reads the command line, and ends the program if it makes no sense.
func Read() Options {
	var options Options
	flag.StringVar(&options.Certificate, "ca", "", "the certificate to trust")
	flag.StringVar(&options.User, "user", "", "who logs in")
	flag.StringVar(&options.Password, "password", "", "the password")
	flag.StringVar(&options.Compressors, "compressors", "", "what to compress with")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "which server? Give its address")
		os.Exit(2)
	}
	options.Endpoint = flag.Arg(0)
	return options
}

// Trust is a TLS configuration that trusts the certificate alone; none without one.
func (options Options) Trust() (*tls.Config, error) {
	if options.Certificate == "" {
		return nil, nil
	}
	text, err := os.ReadFile(options.Certificate)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", options.Certificate)
	}
	return &tls.Config{RootCAs: trusted, ServerName: "127.0.0.1"}, nil
}

// Name is a name that no other walk has.
func Name() string {
	return fmt.Sprintf("walk_%x", time.Now().UnixNano())
}

// Report prints a line of JSON for each case; the runner, tessera-conformance run, reads them.
type Report struct {
	// Area is that of the cases that follow.
	Area           string
	passed, failed int
	since          time.Time
}

// line is what is printed of a case.
type line struct {
	Area    string  `json:"area"`
	Case    string  `json:"case"`
	Outcome string  `json:"outcome"`
	Ms      float64 `json:"ms"`
	Message string  `json:"message"`
}

// Begin is a report whose first case begins now.
func Begin() *Report {
	return &Report{Area: "walk", since: time.Now()}
}

// Check compares what came of a case with what should have.
func (report *Report) Check(name string, expected, actual any, err error) {
	if err == nil && reflect.DeepEqual(expected, actual) {
		report.pass(name)
		return
	}
	report.fail(name, expected, actual, err)
}

// Refused checks that a case is refused, and that the refusal says so.
func (report *Report) Refused(name string, asExpected bool, err error) {
	if err != nil && asExpected {
		report.pass(name)
		return
	}
	report.fail(name, "a refusal", nil, err)
}

func (report *Report) pass(name string) {
	report.passed++
	report.tell(name, "passed", "")
}

func (report *Report) fail(name string, expected, actual any, err error) {
	report.failed++
	message := fmt.Sprintf("expected %#v, got %#v, error %v", expected, actual, err)
	report.tell(name, "failed", message)
}

// tell prints a case, whose time began with the end of the case before it.
func (report *Report) tell(name, outcome, message string) {
	now := time.Now()
	ms := float64(now.Sub(report.since).Microseconds()) / 1000
	text, err := json.Marshal(line{report.Area, name, outcome, ms, message})
	if err != nil {
		panic(err) // strings and numbers always have a form in JSON
	}
	fmt.Println(string(text))
	report.since = now
}

// Finish ends the program, with success if nothing failed.
func (report *Report) Finish(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || report.failed > 0 || report.passed == 0 {
		os.Exit(1)
	}
}
