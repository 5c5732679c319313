// Which slots of which hosts take part (pure): filters such as "worker-0@worker-1:0,2" over the
// hosts of a hostfile, and the text form of the result that goes to the hosts.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/decide/hosts/hostfile.h"

namespace ds {

struct HostSlots {
  std::string name;
  std::vector<int64_t> slots;
  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};
using SlotMap = std::vector<HostSlots>;  // in the order of the hostfile

// NODE[@NODE...] with NODE = NAME[:SLOT[,SLOT...]]; a NAME with colons (IPv6) stands in brackets.
// Nodes in order of their first mention, slots ascending without repetition; no slots mean the
// whole node. Throws UsageError for what is no such text.
SlotMap parse_node_filter(std::string_view text);

// Keeps what `include` names, or drops what `exclude` names; an empty text filters nothing. Hosts
// keep their order, hosts without slots go. Throws UsageError when both are given, or when a host
// or slot is not there.
SlotMap filter_slots(const SlotMap& hosts, std::string_view include, std::string_view exclude);

// The same on a hostfile's pool, each host having slots 0 .. slots - 1. In kDeepSpeed, a host that
// `include` names has the slots that it names, whether the host has them or not, and none when it
// names none: the reference then drops the host. kDslaunch keeps all slots of such a host, and
// refuses slots that it does not have.
SlotMap select_slots(const HostPool& pool, std::string_view include, std::string_view exclude,
                     HostDialect dialect);

// World information as DeepSpeed passes it on: URL-safe base64 of {"host": [slots] or count, ...}.
struct WorldInfoEntry {
  std::string name;
  std::variant<int64_t, std::vector<int64_t>> slots;
};
using WorldInfo = std::vector<WorldInfoEntry>;
std::string encode_world_info(const WorldInfo& hosts);
WorldInfo decode_world_info(
    std::string_view base64);  // throws ConfigError for text of another form

}  // namespace ds
