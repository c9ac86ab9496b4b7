package translate

import (
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"regexp"
	"strings"
)

// part is one part of a MIME archive, with its own media type.
type part struct {
	mediaType string
	content   string
}

// The kinds of parts that castoff reads; all others are kept as they are.
const (
	kindOther = iota
	kindScript
	kindNodeConfig
)

const (
	typeScript     = `text/x-shellscript; charset="us-ascii"`
	typeNodeConfig = "application/node.eks.aws"
	typeCloud      = `text/cloud-config; charset="us-ascii"`
	boundary       = "//" // as Karpenter and EKS write it
	// nested is how deep archives in archives are followed; cloud-init follows all, nobody writes more.
	nested = 4
)

var (
	boundaryLine = regexp.MustCompile(`(?m)^--` + boundary)
	header       = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*):[ \t]*(.*)$`)
	isNodeConfig = regexp.MustCompile(`(?m)^apiVersion:\s*["']?node\.eks\.aws/`)
)

func (p part) kind() int {
	mediaType, _, err := mime.ParseMediaType(p.mediaType)
	switch {
	case err != nil:
		return kindOther
	case mediaType == typeNodeConfig:
		return kindNodeConfig
	case strings.HasPrefix(mediaType, "text/x-shellscript"), strings.HasPrefix(mediaType, "text/cloud-boothook"):
		return kindScript
	}
	return kindOther
}

// parts are those of a MIME archive, or the whole as one. Like cloud-init, and unlike Go's own reader, it takes an archive without
// an end, and a part whose headers no blank line ends: EKS itself writes such.
func parts(s string) ([]part, error) {
	headers, body := cutHeaders(strings.ReplaceAll(strings.TrimLeft(s, "\r\n\t "), "\r\n", "\n"))
	if headers["mime-version"] == "" && headers["content-type"] == "" {
		return []part{{mediaType: typeOf(s), content: s}}, nil
	}
	return unpack(headers, body, nested)
}

// typeOf tells the language of user data that does not say it itself, as nodeadm and cloud-init do.
func typeOf(s string) string {
	switch trimmed := strings.TrimSpace(s); {
	case strings.HasPrefix(trimmed, "#cloud-config"):
		return typeCloud
	case strings.HasPrefix(trimmed, "#!"):
		return typeScript
	case isNodeConfig.MatchString(s):
		return typeNodeConfig
	}
	return typeScript
}

func unpack(headers map[string]string, body string, depth int) ([]part, error) {
	mediaType, params, err := mime.ParseMediaType(headers["content-type"])
	if err != nil {
		return nil, fmt.Errorf("the MIME header Content-Type %q cannot be read: %w", headers["content-type"], err)
	}
	if !strings.HasPrefix(mediaType, "multipart/") {
		content, err := decode(headers["content-transfer-encoding"], body)
		return []part{{mediaType: headers["content-type"], content: content}}, err
	}
	if params["boundary"] == "" || depth == 0 {
		return nil, errors.New("the MIME archive names no boundary, or holds archives in archives in archives")
	}
	var out []part
	for _, section := range split(body, params["boundary"]) {
		headers, content := cutHeaders(section)
		if headers["content-type"] == "" {
			headers["content-type"] = typeOf(content)
		}
		inner, err := unpack(headers, content, depth-1)
		if err != nil {
			return nil, err
		}
		out = append(out, inner...)
	}
	return out, nil
}

// split cuts a body at its boundary lines; what comes before the first is not a part.
func split(body, boundary string) []string {
	var out []string
	var open bool
	for line := range strings.Lines(body) {
		switch strings.TrimRight(line, "\r\n\t ") {
		case "--" + boundary + "--":
			return out
		case "--" + boundary:
			out, open = append(out, ""), true
		default:
			if open {
				out[len(out)-1] += line
			}
		}
	}
	return out
}

// cutHeaders takes header lines off until one is none; the blank line between is not part of the body.
func cutHeaders(s string) (map[string]string, string) {
	out := map[string]string{}
	last := ""
	for s != "" {
		line, rest, _ := strings.Cut(s, "\n")
		m := header.FindStringSubmatch(strings.TrimRight(line, "\r"))
		switch folded := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"); {
		case strings.TrimSpace(line) == "":
			return out, rest
		case m != nil:
			last = strings.ToLower(m[1])
			out[last] = m[2]
		case folded && last != "":
			out[last] += " " + strings.TrimSpace(line)
		default:
			return out, s
		}
		s = rest
	}
	return out, s
}

func decode(encoding, body string) (string, error) {
	if !strings.EqualFold(strings.TrimSpace(encoding), "base64") {
		return body, nil // 7bit and 8bit are themselves; nobody writes scripts as quoted-printable
	}
	b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(body), ""))
	if err != nil {
		return "", fmt.Errorf("a part of the MIME archive is no base64: %w", err)
	}
	return string(b), nil
}

// archive writes parts as Karpenter takes them for Amazon Linux. It is an archive even for one part: Karpenter takes bare text that
// happens to be YAML, such as a cloud-config, for a NodeConfig.
func archive(parts []part) string {
	if len(parts) == 0 {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=%q\n\n", boundary)
	for _, p := range parts {
		fmt.Fprintf(&out, "--%s\nContent-Type: %s\n\n%s\n", boundary, p.mediaType, strings.Trim(p.content, "\n"))
	}
	fmt.Fprintf(&out, "--%s--\n", boundary)
	return out.String()
}
