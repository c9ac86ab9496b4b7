package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity outlives any lab.
const validity = 10 * 365 * 24 * time.Hour

// authority signs the lab's certificates. All keys are ECDSA P-256: made in microseconds.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

// keyPair is a certificate and its key, both PEM.
type keyPair struct {
	certificate, key []byte
}

func newAuthority(name string) (*authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	a := &authority{}
	pair, err := a.sign(template)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority %s: %w", name, err)
	}
	a.pem = pair.certificate
	return a, nil
}

// client is a certificate for a Kubernetes user and its groups.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server is a certificate for a process that listens on loopback, known by further names.
func (a *authority) server(name string, names []string, addresses ...string) (keyPair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    append([]string{"localhost"}, names...),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	return a.sign(template)
}

// sign completes a template. An authority without a certificate yet signs itself.
func (a *authority) sign(template *x509.Certificate) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return keyPair{}, fmt.Errorf("make a serial number: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = template.NotBefore.Add(validity)
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign certificate of %s: %w", template.Subject.CommonName, err)
	}
	if a.certificate == nil {
		if a.certificate, err = x509.ParseCertificate(der); err != nil {
			return keyPair{}, fmt.Errorf("read back certificate of %s: %w", template.Subject.CommonName, err)
		}
		a.key = key
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key: keyPEM}, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// pki is everything the control plane's processes read, under one folder.
type pki struct {
	dir     string
	cluster *authority // signs servers and clients
}

// newPKI writes the files that the control plane's flags name: ca, front-proxy-ca, apiserver, kubelet-client,
// front-proxy-client, kwok-server (each .crt and .key), sa.key and sa.pub.
func newPKI(dir string) (*pki, error) {
	cluster, err := newAuthority("kubernetes-ca")
	if err != nil {
		return nil, err
	}
	front, err := newAuthority("front-proxy-ca")
	if err != nil {
		return nil, err
	}
	p := &pki{dir: dir, cluster: cluster}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of certificates: %w", err)
	}
	clusterKey, err := encodeKey(cluster.key)
	if err != nil {
		return nil, err
	}
	names := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	makers := map[string]func() (keyPair, error){
		"ca":                 func() (keyPair, error) { return keyPair{cluster.pem, clusterKey}, nil },
		"front-proxy-ca":     func() (keyPair, error) { return keyPair{certificate: front.pem}, nil },
		"apiserver":          func() (keyPair, error) { return cluster.server("kube-apiserver", names, "10.96.0.1") },
		"kwok-server":        func() (keyPair, error) { return cluster.server("kwok", nil) },
		"kubelet-client":     func() (keyPair, error) { return cluster.client("kube-apiserver-kubelet-client", groupMasters) },
		"front-proxy-client": func() (keyPair, error) { return front.client("front-proxy-client") },
	}
	for name, maker := range makers {
		pair, err := maker()
		if err != nil {
			return nil, fmt.Errorf("certificate %s: %w", name, err)
		}
		if err := p.write(name+".crt", pair.certificate, name+".key", pair.key); err != nil {
			return nil, err
		}
	}
	return p, p.writeServiceAccountKey()
}

// writeServiceAccountKey makes the key pair that signs ServiceAccount tokens.
func (p *pki) writeServiceAccountKey() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the ServiceAccount key: %w", err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode the ServiceAccount key: %w", err)
	}
	return p.write("sa.key", private, "sa.pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// write takes pairs of a file name and its content.
func (p *pki) write(name1 string, content1 []byte, name2 string, content2 []byte) error {
	for name, content := range map[string][]byte{name1: content1, name2: content2} {
		if len(content) == 0 {
			continue
		}
		if err := os.WriteFile(p.path(name), content, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

func (p *pki) path(name string) string { return filepath.Join(p.dir, name) }
