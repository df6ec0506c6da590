package netguard

import "net/netip"

// reach says how far an address lies.
type reach int

const (
	public reach = iota
	local        // this machine or a private network: refused unless AllowPrivate
	never        // nothing that anybody means to talk to, or the metadata service of a cloud: refused always
)

// zone is one range of the registries of special addresses.
type zone struct {
	prefix netip.Prefix
	reach  reach
	name   string
}

// zones in order: the first that holds an address decides. What a private network may use is local; what has no host behind
// it, or one that gives secrets to whoever asks, is never.
var zones = []zone{
	{netip.MustParsePrefix("169.254.0.0/16"), never, "link-local"}, // 169.254.169.254 is the metadata service of most clouds
	{netip.MustParsePrefix("0.0.0.0/8"), never, "this network"},
	{netip.MustParsePrefix("127.0.0.0/8"), local, "loopback"},
	{netip.MustParsePrefix("10.0.0.0/8"), local, "private"},
	{netip.MustParsePrefix("172.16.0.0/12"), local, "private"},
	{netip.MustParsePrefix("192.168.0.0/16"), local, "private"},
	{netip.MustParsePrefix("100.100.100.200/32"), never, "a metadata service"},
	{netip.MustParsePrefix("100.64.0.0/10"), local, "shared by a provider"},
	{netip.MustParsePrefix("192.0.0.0/24"), never, "reserved"}, // 192.0.0.192 is a metadata service
	{netip.MustParsePrefix("192.0.2.0/24"), never, "documentation"},
	{netip.MustParsePrefix("192.31.196.0/24"), never, "a sink of AS112"},
	{netip.MustParsePrefix("192.52.193.0/24"), never, "a multicast relay"},
	{netip.MustParsePrefix("192.88.99.0/24"), never, "a 6to4 relay"},
	{netip.MustParsePrefix("192.175.48.0/24"), never, "a sink of AS112"},
	{netip.MustParsePrefix("198.18.0.0/15"), local, "a benchmark network"},
	{netip.MustParsePrefix("198.51.100.0/24"), never, "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), never, "documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), never, "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), never, "reserved"},

	{netip.MustParsePrefix("::/128"), never, "unspecified"},
	{netip.MustParsePrefix("::1/128"), local, "loopback"},
	{netip.MustParsePrefix("fd00:ec2::254/128"), never, "a metadata service"},
	{netip.MustParsePrefix("fc00::/7"), local, "private"},
	{netip.MustParsePrefix("fe80::/10"), never, "link-local"},
	{netip.MustParsePrefix("fec0::/10"), local, "site-local"},
	{netip.MustParsePrefix("ff00::/8"), never, "multicast"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), local, "a translation of the local network"},
	{netip.MustParsePrefix("100::/64"), never, "a discard address"},
	{netip.MustParsePrefix("2001::/32"), never, "a Teredo tunnel"},
	{netip.MustParsePrefix("2001::/23"), never, "reserved"},
	{netip.MustParsePrefix("2620:4f:8000::/48"), never, "a sink of AS112"},
	{netip.MustParsePrefix("2001:db8::/32"), never, "documentation"},
	{netip.MustParsePrefix("3fff::/20"), never, "documentation"},
	{netip.MustParsePrefix("5f00::/16"), never, "a routing segment"},
}

// carriers hold an IPv4 address, from the byte given on, which is the one that is really reached.
var carriers = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4
	{netip.MustParsePrefix("::/96"), 12},        // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12},
}

// judge finds what an address is. Addresses that carry another are judged by the one they carry.
func judge(addr netip.Addr) (reach, string) {
	addr = addr.WithZone("").Unmap()
	for _, z := range zones {
		if z.prefix.Contains(addr) {
			return z.reach, z.name
		}
	}
	for _, c := range carriers {
		if !c.prefix.Contains(addr) {
			continue
		}
		raw := addr.As16()
		carried, name := judge(netip.AddrFrom4([4]byte(raw[c.at : c.at+4])))
		return carried, name
	}
	if !addr.IsValid() || addr.Is6() && !globalUnicast.Contains(addr) {
		return never, "not in use"
	}
	return public, ""
}

// globalUnicast is all of IPv6 that is given out.
var globalUnicast = netip.MustParsePrefix("2000::/3")
