package lab

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"testing"

	. "github.com/onsi/gomega"
)

func TestPKI(t *testing.T) {
	g := NewWithT(t)
	p, err := newPKI(t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"ca", "apiserver", "kwok-server", "kubelet-client", "front-proxy-client"} {
		_, err := tls.LoadX509KeyPair(p.path(name+".crt"), p.path(name+".key"))
		g.Expect(err).NotTo(HaveOccurred(), name)
		info, err := os.Stat(p.path(name + ".key"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(info.Mode().Perm()).To(BeEquivalentTo(0o600), name)
	}
	g.Expect(p.path("sa.pub")).To(BeARegularFile())

	roots := x509.NewCertPool()
	g.Expect(roots.AppendCertsFromPEM(p.cluster.pem)).To(BeTrue())
	server := parse(g, read(g, p.path("apiserver.crt")))
	for _, name := range []string{"127.0.0.1", "localhost", "kubernetes.default.svc", "10.96.0.1"} {
		_, err := server.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		g.Expect(err).NotTo(HaveOccurred(), name)
	}
	pair, err := p.cluster.client("lab:watcher", groupMasters)
	g.Expect(err).NotTo(HaveOccurred())
	client := parse(g, pair.certificate)
	g.Expect(client.Subject.CommonName).To(Equal("lab:watcher"))
	g.Expect(client.Subject.Organization).To(ConsistOf(groupMasters))
	_, err = client.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	g.Expect(err).NotTo(HaveOccurred())
	proxy := parse(g, read(g, p.path("front-proxy-client.crt")))
	_, err = proxy.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	g.Expect(err).To(HaveOccurred(), "the aggregator's certificate is of another authority: it must not pass for a user")
}

func read(g Gomega, path string) []byte {
	content, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	return content
}

func parse(g Gomega, content []byte) *x509.Certificate {
	block, _ := pem.Decode(content)
	g.Expect(block).NotTo(BeNil())
	certificate, err := x509.ParseCertificate(block.Bytes)
	g.Expect(err).NotTo(HaveOccurred())
	return certificate
}
