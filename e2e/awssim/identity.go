package awssim

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// sessionDuration is how long temporary credentials say they live. They work for ever.
const sessionDuration = 6 * time.Hour

// identityOf names the caller behind an access key: the session it was issued for, or the user of that name.
func (s *Server) identityOf(accessKey string) string {
	if arn, ok := s.sessions[accessKey]; ok {
		return arn
	}
	return s.globalARN("iam", "user/"+accessKey)
}

// newSession issues an access key for a role. The same role and session name always get the same key.
func (s *Server) newSession(roleARN, sessionName string) (accessKey, arn string) {
	role := roleARN[strings.LastIndexByte(roleARN, '/')+1:]
	arn = s.globalARN("sts", "assumed-role/"+role+"/"+sessionName)
	accessKey = "ASIA" + strings.ToUpper(stableHex(arn, 16))
	s.sessions[accessKey] = arn
	return accessKey, arn
}

// podCredentials are what the EKS Pod Identity agent answers.
type podCredentials struct {
	AccessKeyID     string    `json:"AccessKeyId"`
	SecretAccessKey string    `json:"SecretAccessKey"`
	Token           string    `json:"Token"`
	AccountID       string    `json:"AccountId"`
	Expiration      time.Time `json:"Expiration"`
}

// serveIdentity stands for the EKS Pod Identity agent: it trusts the ServiceAccount named in the token, unverified.
func (s *Server) serveIdentity(w http.ResponseWriter, r *http.Request) {
	namespace, name, err := serviceAccountOf(r.Header.Get("Authorization"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.lock()
	defer s.unlock()
	role, ok := "", false
	if s.podIdentity != nil {
		role, ok = s.podIdentity(namespace, name)
	}
	if !ok {
		http.Error(w, fmt.Sprintf("ServiceAccount %s/%s has no pod identity association", namespace, name), http.StatusNotFound)
		return
	}
	key, _ := s.newSession(role, "eks-"+namespace+"-"+name)
	answer(w, podCredentials{AccessKeyID: key, SecretAccessKey: "secret", Token: "token", AccountID: accountID, Expiration: time.Now().Add(sessionDuration).UTC()}, nil)
}

// serviceAccountOf reads the subject system:serviceaccount:NAMESPACE:NAME of a JWT.
func serviceAccountOf(token string) (namespace, name string, err error) {
	parts := strings.Split(strings.TrimPrefix(token, "Bearer "), ".")
	if len(parts) != 3 {
		return "", "", fmt.Errorf("the Authorization header must be a ServiceAccount token (JWT)")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", "", fmt.Errorf("decoding the token: %w", err)
	}
	var claims struct{ Sub string }
	if err := json.Unmarshal(payload, &claims); err != nil {
		return "", "", fmt.Errorf("parsing the token: %w", err)
	}
	subject := strings.Split(claims.Sub, ":")
	if len(subject) != 4 || subject[0] != "system" || subject[1] != "serviceaccount" {
		return "", "", fmt.Errorf("the token's subject %q is no ServiceAccount", claims.Sub)
	}
	return subject[2], subject[3], nil
}
