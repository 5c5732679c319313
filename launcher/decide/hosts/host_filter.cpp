// Filters over hosts and slots.
#include "launcher/decide/hosts/host_filter.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_set>

#include "config/reader/json_reader.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/decide/hosts/node_list.h"
#include "launcher/decide/text/base64.h"
#include "launcher/decide/text/json_text.h"

namespace ds {

namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// "[fd00::1]:0,2": colons within brackets are the address's own.
std::vector<std::string_view> name_and_slots(std::string_view node) {
  const size_t close = node.find(']');
  if (!node.starts_with('[') || close == std::string_view::npos) return split(node, ':');
  std::vector<std::string_view> parts = split(node.substr(close + 1), ':');
  if (!parts.front().empty()) return split(node, ':');
  parts.front() = node.substr(1, close - 1);
  return parts;
}

template <class Map>
auto find_host(Map& hosts, std::string_view name) {
  return std::ranges::find(hosts, name, &HostSlots::name);
}

const HostSlots& require_host(const SlotMap& hosts, const HostSlots& wanted) {
  const auto host = find_host(hosts, wanted.name);
  if (host == hosts.end())
    throw UsageError(fmt::format("filter: host '{}' is not in the hostfile", wanted.name));
  for (const int64_t slot : wanted.slots) {
    if (std::ranges::find(host->slots, slot) == host->slots.end()) {
      throw UsageError(fmt::format("filter: host '{}' has no slot {}", wanted.name, slot));
    }
  }
  return *host;
}

void drop_repetitions(std::vector<int64_t>& slots) {
  std::unordered_set<int64_t> seen;
  std::erase_if(slots, [&](int64_t slot) { return !seen.insert(slot).second; });
}

}  // namespace

SlotMap parse_node_filter(std::string_view text) {
  SlotMap nodes;
  for (const std::string_view node : split(text, '@')) {
    const auto parts = name_and_slots(node);
    if (parts.size() > 2) throw UsageError(fmt::format("filter: '{}' has more than one ':'", node));
    auto entry = find_host(nodes, parts[0]);
    if (entry == nodes.end())
      entry = nodes.insert(nodes.end(), HostSlots{std::string(parts[0]), {}});
    if (parts.size() == 1) continue;
    for (const std::string_view slot : split(parts[1], ',')) {
      entry->slots.push_back(
          parse_whole_number(slot, fmt::format("filter: a slot of '{}'", parts[0])));
    }
  }
  for (HostSlots& node : nodes) {
    std::ranges::sort(node.slots);
    drop_repetitions(node.slots);
  }
  return nodes;
}

SlotMap filter_slots(const SlotMap& hosts, std::string_view include, std::string_view exclude) {
  if (!include.empty() && !exclude.empty()) {
    throw UsageError("filter: include and exclude cannot be used together; give one of them");
  }
  if (include.empty() && exclude.empty()) return hosts;
  SlotMap result;
  if (!include.empty()) {
    const SlotMap wanted = parse_node_filter(include);
    for (const HostSlots& node : wanted) require_host(hosts, node);
    for (const HostSlots& host : hosts) {
      const auto node = find_host(wanted, host.name);
      if (node != wanted.end())
        result.push_back({host.name, node->slots.empty() ? host.slots : node->slots});
    }
  } else {
    result = hosts;
    for (const HostSlots& node : parse_node_filter(exclude)) {
      require_host(hosts, node);
      std::vector<int64_t>& slots = find_host(result, node.name)->slots;
      if (node.slots.empty()) slots.clear();
      for (const int64_t slot : node.slots) slots.erase(std::ranges::find(slots, slot));
    }
  }
  for (HostSlots& host : result) drop_repetitions(host.slots);
  std::erase_if(result, [](const HostSlots& host) { return host.slots.empty(); });
  return result;
}

SlotMap select_slots(const HostPool& pool, std::string_view include, std::string_view exclude,
                     HostDialect dialect) {
  SlotMap named;
  if (dialect == HostDialect::kDeepSpeed) named = parse_node_filter(include);
  SlotMap hosts;
  for (const Host& host : pool) {
    constexpr int64_t kMostSlots = int64_t{1} << 20;  // beyond any machine, before any allocation
    if (host.slots < 0 || host.slots > kMostSlots) {
      throw UsageError(
          fmt::format("filter: host '{}' cannot have {} slots", host.name, host.slots));
    }
    HostSlots& all = hosts.emplace_back(HostSlots{host.name, {}});
    if (const auto node = find_host(named, host.name); node != named.end()) {
      all.slots = node->slots;
    } else {
      all.slots.resize(to_size(host.slots));
      std::iota(all.slots.begin(), all.slots.end(), int64_t{0});
    }
  }
  return filter_slots(hosts, include, exclude);
}

std::string encode_world_info(const WorldInfo& hosts) {
  JsonObject json;
  for (const WorldInfoEntry& host : hosts) {
    if (const auto* count = std::get_if<int64_t>(&host.slots)) {
      json.integer(host.name, *count);
    } else {
      json.raw(host.name,
               fmt::format("[{}]", fmt::join(std::get<std::vector<int64_t>>(host.slots), ", ")));
    }
  }
  return encode_base64(json.str());
}

WorldInfo decode_world_info(std::string_view base64) {
  WorldInfo hosts;
  const Value document = read_config_document(decode_base64(base64), "world info");
  for (const Member& member : document.members()) {
    WorldInfoEntry entry{member.key, int64_t{0}};
    if (member.value.is_list()) {
      std::vector<int64_t> slots;
      for (const Value& slot : member.value.items()) {
        if (slot.kind() != Value::Kind::kInteger)
          throw ConfigError("world info: a slot is no whole number");
        slots.push_back(slot.as_integer());
      }
      entry.slots = std::move(slots);
    } else if (member.value.kind() == Value::Kind::kInteger) {
      entry.slots = member.value.as_integer();
    } else {
      throw ConfigError(fmt::format("world info: host {} is {}, expected slots", member.key,
                                    member.value.kind_name()));
    }
    hosts.push_back(std::move(entry));
  }
  return hosts;
}

}  // namespace ds
