#include "config/reader/overrides.h"

#include <algorithm>
#include <vector>

#include "config/reader/json_reader.h"
#include "config/reader/secret_keys.h"
#include "core/status/error.h"

namespace ds {

namespace {

constexpr size_t kMostIncludes = 32;

std::vector<std::string> split_path(const std::string& path, const std::string& override_text) {
  std::vector<std::string> keys(1);
  for (const char c : path) {
    if (c == '.') {
      keys.emplace_back();
    } else {
      keys.back() += c;
    }
  }
  if (keys.size() > static_cast<size_t>(kMaxDepth) ||
      std::any_of(keys.begin(), keys.end(), [](const std::string& key) { return key.empty(); })) {
    throw ConfigError(
        fmt::format("override \"{}\": \"{}\" is no key path, expected a.b.c", override_text, path));
  }
  return keys;
}

// The object that holds the last key; made on the way where `origin` is given, else null when
// missing.
Value* holder(Value& document, const std::vector<std::string>& keys, const Origin* origin,
              const std::string& override_text) {
  Value* object = &document;
  for (size_t i = 0; i + 1 < keys.size(); ++i) {
    Value* next = object->find(keys[i]);
    if (!next || next->is_null()) {
      if (!origin) return nullptr;
      next = &object->set(keys[i], Value::object(*origin));
    }
    if (!next->is_object()) {
      throw ConfigError(fmt::format("override \"{}\": {} is {}, not an object", override_text,
                                    keys[i], next->kind_name()));
    }
    object = next;
  }
  return object;
}

void add(Value& target, const std::string& key, Value value, const std::string& override_text) {
  Value* present = target.find(key);
  if (!present) {
    target.set(key, std::move(value));
  } else if (present->is_list()) {
    if (value.is_list()) {
      for (Value& item : value.items()) present->items().push_back(std::move(item));
    } else {
      present->items().push_back(std::move(value));
    }
  } else {
    throw ConfigError(
        fmt::format("override \"{}\": {} is already given at {}; leave out the + to replace it",
                    override_text, key, present->origin().text()));
  }
}

// RFC 7396: `patch` wins; null removes. Depth is bounded by the reader.
void merge(Value& base, const Value& patch) {
  for (const Member& member : patch.members()) {
    Value* present = base.find(member.key);
    if (member.value.is_null()) {
      base.erase(member.key);
    } else if (present && present->is_object() && member.value.is_object()) {
      merge(*present, member.value);
    } else {
      base.set(member.key, member.value);
    }
  }
}

class Includer {
 public:
  explicit Includer(const IncludeReader& read) : read_(read) {}

  void expand(Value& document, const std::string& identity, const std::string& directory) {
    const Value* include = document.find("include");
    if (!include) return;
    const std::vector<std::string> paths = paths_of(*include);
    const Origin origin = include->origin();
    document.erase("include");
    open_.push_back(identity);
    Value merged = Value::object(document.origin());
    for (const std::string& path : paths) {
      if (++count_ > kMostIncludes) {
        throw ConfigError(
            fmt::format("{}: include: more than {} files", origin.text(), kMostIncludes));
      }
      IncludedFile file = read_(path, directory);
      if (std::find(open_.begin(), open_.end(), file.identity) != open_.end()) {
        throw ConfigError(fmt::format("{}: include: {} includes itself", origin.text(), path));
      }
      expand(file.document, file.identity, file.directory);
      merge(merged, file.document);
    }
    open_.pop_back();
    merge(merged, document);
    document = std::move(merged);
  }

 private:
  static std::vector<std::string> paths_of(const Value& include) {
    std::vector<std::string> paths;
    const auto add_path = [&](const Value& value) {
      if (!value.is_string()) {
        throw ConfigError(fmt::format("{}: include: got {}, expected a path or a list of paths",
                                      value.origin().text(), value.excerpt()));
      }
      paths.push_back(value.as_string());
    };
    if (include.is_list()) {
      for (const Value& item : include.items()) add_path(item);
    } else {
      add_path(include);
    }
    return paths;
  }

  const IncludeReader& read_;
  std::vector<std::string> open_;
  size_t count_ = 0;
};

// `shown`: what messages call it.
void apply(Value& document, const std::string& override_text, const std::string& shown) {
  const Origin origin{std::make_shared<const std::string>(fmt::format("command line: {}", shown)),
                      0, 0};
  if (override_text.starts_with('~')) {
    const auto keys = split_path(override_text.substr(1), shown);
    Value* object = holder(document, keys, nullptr, shown);
    if (!object || !object->erase(keys.back())) {
      throw ConfigError(
          fmt::format("override \"{}\": nothing to remove, the key is not given", shown));
    }
    return;
  }
  const bool adds = override_text.starts_with('+');
  const size_t equals = override_text.find('=');
  if (equals == std::string::npos) {
    throw ConfigError(
        fmt::format("override \"{}\": expected key=value, +key=value or ~key", shown));
  }
  const size_t start = adds ? 1 : 0;
  const auto keys = split_path(override_text.substr(start, equals - start), shown);
  Value value = read_config_value(std::string_view(override_text).substr(equals + 1), origin);
  Value* object = holder(document, keys, &origin, shown);
  if (adds) {
    add(*object, keys.back(), std::move(value), shown);
  } else {
    object->set(keys.back(), std::move(value));
  }
}

}  // namespace

void apply_override(Value& document, const std::string& override_text) {
  apply(document, override_text, shown_override(override_text));
}

void merge_includes(Value& document, const std::string& identity, const std::string& directory,
                    const IncludeReader& read) {
  Includer(read).expand(document, identity, directory);
}

}  // namespace ds
