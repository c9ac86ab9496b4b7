package awssim

import (
	"net/netip"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// ec2Service simulates Amazon EC2.
type ec2Service struct {
	s               *Server
	vpcs            *table[types.Vpc]
	subnets         *table[types.Subnet]
	dhcpOptions     *table[types.DhcpOptions]
	securityGroups  *table[types.SecurityGroup]
	images          *table[types.Image]
	instances       *table[instance]
	volumes         *table[types.Volume]
	templates       *table[launchTemplate]
	placementGroups *table[types.PlacementGroup]
	reservations    *table[types.CapacityReservation]

	addresses map[netip.Addr]string // private addresses in use, and by which instance
	tokens    map[string]any        // client tokens already seen, and what they answered
}

func newEC2(s *Server) *ec2Service {
	e := &ec2Service{
		s:               s,
		vpcs:            newTable[types.Vpc](s),
		subnets:         newTable[types.Subnet](s),
		dhcpOptions:     newTable[types.DhcpOptions](s),
		securityGroups:  newTable[types.SecurityGroup](s),
		images:          newTable[types.Image](s),
		instances:       newTable[instance](s),
		volumes:         newTable[types.Volume](s),
		templates:       newTable[launchTemplate](s),
		placementGroups: newTable[types.PlacementGroup](s),
		reservations:    newTable[types.CapacityReservation](s),
		addresses:       map[netip.Addr]string{},
		tokens:          map[string]any{},
	}
	e.registerNetwork()
	e.registerImages()
	e.registerCatalog()
	e.registerTemplates()
	e.registerInstances()
	e.registerTags()
	return e
}
