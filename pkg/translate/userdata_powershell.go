package translate

import (
	"regexp"
	"slices"
	"strings"
)

var (
	powershell = regexp.MustCompile(`(?is)<powershell>(.*?)</powershell>`)
	// windowsCall is EKS's own script, by name or by the variable that EKS's own user data gives it.
	windowsCall = regexp.MustCompile(`(?i)^&\s*("[^"]*Start-EKSBootstrap\.ps1"|\S*Start-EKSBootstrap\.ps1|\$EKSBootstrapScriptFile)(\s.*)?$`)
	windowsVars = regexp.MustCompile(`(?i)^(\[string\])?\$EKS(BinDir|BootstrapScriptName|BootstrapScriptFile)\s*=`)

	// joinParameters only join the cluster (EKS user guide, "Windows AMI bootstrap configuration").
	joinParameters = []string{"eksclustername", "apiserverendpoint", "base64clusterca", "containerruntime", "servicecidr"}
)

// readWindows lifts the call of EKS's script out of PowerShell. Karpenter writes the tags around it itself, and calls it last.
func (u *userData) readWindows(s string) {
	blocks := powershell.FindAllStringSubmatch(s, -1)
	if outside := strings.TrimSpace(powershell.ReplaceAllString(s, "")); outside != "" {
		u.drop("outside of <powershell>: %s", firstLine(outside))
	}
	if len(blocks) == 0 {
		u.broken = "it has no <powershell> block, and Karpenter takes no other"
		return
	}
	var out strings.Builder
	does, joined := false, false
	for line := range strings.Lines(strings.ReplaceAll(blocks[0][1], "`\n", " ")) {
		trimmed := strings.TrimSpace(line)
		switch call := windowsCall.FindStringSubmatch(trimmed); {
		case call != nil:
			arguments, _ := shellWords(strings.ReplaceAll(call[2], "3>&1 4>&1 5>&1 6>&1", ""), '`', operators)
			u.readWindowsCall(arguments)
			joined = true
			continue
		case trimmed == "", strings.HasPrefix(trimmed, "#"):
		case windowsVars.MatchString(trimmed):
			continue
		case strings.Contains(strings.ToLower(trimmed), "start-eksbootstrap"):
			u.broken = "it calls Start-EKSBootstrap.ps1 in a way that castoff cannot take out"
		default:
			does, u.late = true, u.late || joined
		}
		out.WriteString(line)
	}
	if does {
		u.kept = append(u.kept, part{content: strings.TrimSpace(out.String()) + "\n"})
	}
}

func (u *userData) readWindowsCall(arguments []string) {
	for name, value := range options(arguments, "-") {
		switch lower := strings.ToLower(name); {
		case lower == "kubeletextraargs":
			inner, _ := shellWords(value, '`', "")
			u.readKubeletFlags(inner, nil)
		case lower == "dnsclusterip" && u.setFlag("cluster-dns", value):
		case !slices.Contains(joinParameters, lower):
			u.drop("-%s %s", name, value)
		}
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return strings.TrimSpace(line)
}
