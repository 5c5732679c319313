// Areas hostfile and launcher: hosts, filters, lists and who a rank is.
#include "launcher/decide/hosts/hostfile.h"

#include <initializer_list>
#include <stdexcept>

#include "core/status/error.h"
#include "launcher/decide/hosts/host_filter.h"
#include "launcher/decide/hosts/node_list.h"
#include "launcher/decide/text/environment.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"

namespace ds::conform {
namespace {

SlotMap slots_of(const Json& hosts) {
  SlotMap result;
  for (const Json& host : array(hosts).GetArray())
    result.push_back({as<std::string>(host[0]), list<int64_t>(host[1])});
  return result;
}

std::string slots_answer(const char* key, const SlotMap& hosts) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> pairs;
  for (const HostSlots& host : hosts) pairs.emplace_back(host.name, host.slots);
  return Answer().add(key, pairs).text();
}

std::string parse(const Json& input) {
  std::vector<std::pair<std::string, int64_t>> pairs;
  for (const Host& host :
       parse_hostfile(get<std::string>(input, "text"), "hostfile", HostDialect::kDeepSpeed)) {
    pairs.emplace_back(host.name, host.slots);
  }
  return Answer().add("hosts", pairs).text();
}

std::string select(const Json& input) {
  HostPool pool;
  for (const Json& host : array(need(input, "pool")).GetArray()) {
    pool.push_back({as<std::string>(host[0]), as<int64_t>(host[1])});
  }
  return slots_answer("hosts",
                      select_slots(pool, get<std::string>(input, "include"),
                                   get<std::string>(input, "exclude"), HostDialect::kDeepSpeed));
}

std::string encode(const Json& input) {
  WorldInfo info;
  for (const Json& host : array(need(input, "hosts")).GetArray()) {
    WorldInfoEntry& entry = info.emplace_back(WorldInfoEntry{as<std::string>(host[0]), int64_t{0}});
    if (host[1].IsArray()) {
      entry.slots = list<int64_t>(host[1]);
    } else {
      entry.slots = as<int64_t>(host[1]);
    }
  }
  return Answer().add("base64", encode_world_info(info)).text();
}

std::string decode(const Json& input) {
  rapidjson::Document out(rapidjson::kObjectType);
  auto& memory = out.GetAllocator();
  Json hosts(rapidjson::kArrayType);
  for (const WorldInfoEntry& entry : decode_world_info(get<std::string>(input, "base64"))) {
    Json slots;
    if (const auto* count = std::get_if<int64_t>(&entry.slots)) {
      slots.SetInt64(*count);
    } else {
      slots.SetArray();
      for (const int64_t slot : std::get<std::vector<int64_t>>(entry.slots))
        slots.PushBack(slot, memory);
    }
    Json pair(rapidjson::kArrayType);
    pair.PushBack(Json(entry.name.c_str(), memory), memory).PushBack(slots, memory);
    hosts.PushBack(pair, memory);
  }
  out.AddMember("hosts", hosts, memory);
  return to_text(out);
}

// DeepSpeed's MPICH helper alone maps these; started_place has its own rules for ours.
const std::string* find(const Environment& environment, std::string_view name) {
  const auto entry = environment.find(name);
  return entry == environment.end() ? nullptr : &entry->second;
}

// The value that all of the set ones share.
std::string agreed(const Environment& environment, std::initializer_list<std::string_view> names,
                   std::string_view what) {
  const std::string* value = nullptr;
  for (const std::string_view name : names) {
    const std::string* other = find(environment, name);
    if (value && other && *value != *other) {
      throw UsageError(fmt::format("environment: {} is '{}' and also '{}'", what, *value, *other));
    }
    if (!value) value = other;
  }
  if (!value) {
    throw UsageError(
        fmt::format("environment: no {}, expected {}", what, fmt::join(names, " or ")));
  }
  return *value;
}

}  // namespace

std::string hostfile(const rapidjson::Value& input) {
  const std::string op = get<std::string>(input, "op");
  if (op == "parse_hostfile") return parse(input);
  if (op == "node_config_list")
    return slots_answer("nodes", parse_node_filter(get<std::string>(input, "spec")));
  if (op == "resource_filter") {
    return slots_answer(
        "hosts", filter_slots(slots_of(need(input, "hosts")), get<std::string>(input, "include"),
                              get<std::string>(input, "exclude")));
  }
  if (op == "inclusion_exclusion") return select(input);
  if (op == "world_info_encode") return encode(input);
  if (op == "world_info_decode") return decode(input);
  const NodeCount count =
      parse_node_count(get<std::string>(input, "text"),
                       get<bool>(input, "elastic") ? Elasticity::kOn : Elasticity::kOff);
  return Answer().add("min", count.min).add("max", count.max).text();
}

std::string launcher(const rapidjson::Value& input) {
  const std::string op = get<std::string>(input, "op");
  if (op == "range_list") {
    return Answer().add("cores", parse_core_list(get<std::string>(input, "text"))).text();
  }
  // The others ask for the words of DeepSpeed's own launcher and its back ends, which ours has not.
  if (op != "rank_env") throw std::invalid_argument("op: " + op);
  Environment environment;
  for (const auto& member : need(input, "env").GetObject()) {
    environment[member.name.GetString()] = as<std::string>(member.value);
  }
  return Answer()
      .add("RANK", agreed(environment, {"PMIX_RANK", "PMI_RANK"}, "rank"))
      .add("LOCAL_RANK",
           agreed(environment, {"PALS_LOCAL_RANKID", "MPI_LOCALRANKID"}, "local rank"))
      .text();
}

}  // namespace ds::conform
