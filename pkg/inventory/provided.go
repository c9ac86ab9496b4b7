package inventory

import "github.com/castoff-sh/castoff/api/v1alpha1"

// Provided names what is somebody else's, as spec.provisioner says: castoff checks it and neither makes nor removes it. The zero
// value provides nothing.
type Provided struct {
	// Engine says that Karpenter itself is.
	Engine bool `json:"engine,omitempty"`
	// Queue is the name of the interruption queue; NoQueue says that there is to be none.
	Queue   string `json:"queue,omitempty"`
	NoQueue bool   `json:"noQueue,omitempty"`
	// NodeRole and ControllerRole are names of IAM roles, both or neither.
	NodeRole       string `json:"nodeRole,omitempty"`
	ControllerRole string `json:"controllerRole,omitempty"`
	// Namespace and ServiceAccount are Karpenter's, where Engine is provided and was found.
	Namespace      string `json:"namespace,omitempty"`
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

// ProvidedBy is what a Migration's spec.provisioner provides.
func ProvidedBy(p v1alpha1.Provisioner) Provided {
	out := Provided{Engine: p.Source == v1alpha1.SourceExisting, NoQueue: p.Queue == v1alpha1.QueueNone}
	if p.Queue == v1alpha1.QueueExisting {
		out.Queue = p.QueueName
	}
	if p.Identity == v1alpha1.IdentityExisting {
		out.NodeRole, out.ControllerRole = p.NodeRole, p.ControllerRole
	}
	return out
}

// Identity says whether the roles are provided.
func (p Provided) Identity() bool { return p.NodeRole != "" }
