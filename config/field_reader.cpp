#include "config/field_reader.h"

#include <algorithm>
#include <set>
#include <utility>

#include "config/ignored_keys.h"
#include "config/reader/convert.h"
#include "config/unknown_key.h"
#include "core/status/error.h"

namespace ds {

namespace {

// Every key of one object, under every condition: to say why a key that exists has no place here.
class ConditionFinder : public Visitor {
 public:
  explicit ConditionFinder(std::string_view key) : key_(key) {}
  bool describes() const override { return true; }
  void on_field(const Field& field) override { see(field.key); }
  void on_section(const Section& section) override { see(section.key); }
  void on_collection(const Collection& collection) override { see(collection.key); }
  void enter_condition(std::string_view condition) override { condition_ = condition; }
  void leave_condition() override { condition_ = {}; }
  bool found() const { return !values_.empty(); }
  // "has a meaning only where mode is fixed or variable"; of many alternatives some are listed.
  std::string message() const {
    constexpr size_t kMostListed = 10;
    const size_t listed = std::min(values_.size(), kMostListed);
    std::string text = fmt::format("has a meaning only where {} is {}", key_of_condition_,
                                   fmt::join(values_.begin(), values_.begin() + listed, " or "));
    if (listed < values_.size()) text += fmt::format(" or one of {} more", values_.size() - listed);
    return text;
  }

 private:
  void see(std::string_view key) {
    if (key != key_ || condition_.empty()) return;
    const size_t is = condition_.find(" is ");
    key_of_condition_ = condition_.substr(0, is);
    values_.emplace_back(condition_.substr(is + 4));
  }
  std::string_view key_;
  std::string_view condition_;
  std::string_view key_of_condition_;
  std::vector<std::string> values_;
};

// A hostile key must not fill the screen.
std::string shortened(const std::string& key) {
  constexpr size_t kLongest = 60;
  if (key.size() <= kLongest) return key;
  size_t cut = kLongest;
  while (cut > 0 && (static_cast<unsigned char>(key[cut]) & 0xC0) == 0x80) --cut;
  return key.substr(0, cut) + "...";
}

// What is typed on the command line is meant for this program, never for one around it.
bool is_typed(const Origin& origin) {
  return origin.source && origin.source->starts_with("command line");
}

// Does a section have a switch of its own?
class SwitchFinder : public Visitor {
 public:
  bool describes() const override { return true; }
  void on_field(const Field& field) override { found_ = found_ || field.key == "enabled"; }
  void on_section(const Section&) override {}
  void on_collection(const Collection&) override {}
  bool found() const { return found_; }

 private:
  bool found_ = false;
};

// "fp16": true is what people write first.
std::string switch_hint(const Section& section, const Value& value) {
  // An optional section would have to be made present for a look inside.
  if (value.kind() != Value::Kind::kBoolean || section.optional) return "";
  SwitchFinder finder;
  section.walk(finder);
  return finder.found() ? fmt::format(": {{\"enabled\": {}}}", value.excerpt()) : "";
}

class FieldReader : public Visitor {
 public:
  FieldReader(Origins& origins, Problems& problems) : origins_(origins), problems_(problems) {}

  void read_object(const Value& object, const std::string& path, DeepSpeedChecks checks,
                   const std::function<void(Visitor&)>& walk);

  void on_field(const Field& field) override;
  void on_section(const Section& section) override;
  void on_collection(const Collection& collection) override;
  void on_retired(const Retired& retired) override { offer(retired.key); }
  void on_rest(const Rest& rest) override;

 private:
  // What is being read; saved and restored around each nested object.
  struct Level {
    const Value* object = nullptr;
    std::string path;
    DeepSpeedChecks checks = DeepSpeedChecks::kLittle;
    std::set<std::string, std::less<>> offered;
    bool takes_rest = false;
    bool failed = false;  // a value of this object was refused
  };

  // DeepSpeed's typed sections take "auto" as well.
  bool stands_for_absence(const Value& value) const {
    if (value.is_null()) return true;
    return value.is_string() && value.as_string() == "auto" &&
           level_.checks == DeepSpeedChecks::kKeysAndValues;
  }
  std::string path_of(std::string_view key) const {
    return level_.path.empty() ? std::string(key) : fmt::format("{}.{}", level_.path, key);
  }
  Basis value_basis(const Spec& spec) const {
    return level_.checks == DeepSpeedChecks::kKeysAndValues || spec.deepspeed_refuses
               ? Basis::kDeepSpeed
               : Basis::kOwn;
  }
  void offer(std::string_view key) { level_.offered.emplace(key); }
  // Null where the field has no such value: as if not given.
  static bool leaves_open(const Field& field, const Value& value) {
    return value.is_null() && !takes_null(field) && !field.spec.required;
  }
  const Member* given(const Field& field);
  void refuse(Basis basis, const std::string& path, const Origin& origin, std::string message);
  void report_unknown_keys(const std::function<void(Visitor&)>& walk);
  void report_key_of_other_kind(const std::string& path, const Origin& origin, Basis basis,
                                const std::string& message);
  bool is_reported(const Origin& origin) const;
  void read_collection_list(const Collection& collection, const Value& value);

  Origins& origins_;
  Problems& problems_;
  Level level_;
};

void FieldReader::read_object(const Value& object, const std::string& path, DeepSpeedChecks checks,
                              const std::function<void(Visitor&)>& walk) {
  Level outer = std::exchange(level_, Level{&object, path, checks, {}, false, false});
  walk(*this);
  report_unknown_keys(walk);
  level_ = std::move(outer);
}

void FieldReader::refuse(Basis basis, const std::string& path, const Origin& origin,
                         std::string message) {
  level_.failed = true;
  problems_.error(basis, path, origin, std::move(message));
}

// The member that holds the field's value under its name or a synonym; both at once is an error.
const Member* FieldReader::given(const Field& field) {
  offer(field.key);
  const Member* found = level_.object->find_member(field.key);
  for (const std::string_view synonym : field.spec.synonyms) {
    offer(synonym);
    const Member* other = level_.object->find_member(synonym);
    if (!other) continue;
    if (found) {
      refuse(Basis::kDeepSpeed, path_of(synonym), other->origin,
             fmt::format("is another name of \"{}\", which is also given at {}; remove one",
                         field.key, found->origin.text()));
      continue;
    }
    problems_.note(path_of(synonym), other->origin,
                   fmt::format("is an older name of \"{}\"", field.key));
    found = other;
  }
  return found;
}

void FieldReader::on_field(const Field& field) {
  const Member* member = given(field);
  if (!member) {
    if (field.spec.required) {
      refuse(value_basis(field.spec), path_of(field.key), level_.object->origin(),
             "is required in this section");
    }
    return;
  }
  const Value& value = member->value;
  if (leaves_open(field, value)) {
    return problems_.note(
        path_of(field.key), value.origin(),
        fmt::format("null is taken as not given: it is {}", to_compact_json(field_value(field))),
        value_basis(field.spec));
  }
  origins_[path_of(field.key)] = value.origin();
  const auto* names = std::get_if<EnumRef>(&field.slot);
  const bool auto_is_a_value =
      names && std::any_of(names->names().begin(), names->names().end(),
                           [](const EnumName& name) { return name.name == "auto"; });
  if (value.is_string() && value.as_string() == "auto" && !auto_is_a_value) {
    // Nothing turns a feature on by itself, so a switch on "auto" is off.
    if (field.spec.required && field.key != "enabled") {
      refuse(value_basis(field.spec), path_of(field.key), value.origin(),
             "\"auto\" has nothing to be derived from here; give a value");
    }
    return;  // as if not given: the default, or the value that is derived when it is absent
  }
  const Stored stored = store(value, field);
  if (stored == Stored::kDone) return;
  const bool own = stored == Stored::kOutOfRange && field.spec.own_range;
  refuse(own ? Basis::kOwn : value_basis(field.spec), path_of(field.key), value.origin(),
         refusal(value, field));
}

void FieldReader::on_section(const Section& section) {
  offer(section.key);
  const Member* member = level_.object->find_member(section.key);
  if (!member) return;
  const std::string path = path_of(section.key);
  if (stands_for_absence(member->value)) {
    if (member->value.is_null() && !section.optional) {
      problems_.note(path, member->value.origin(), "null is taken as not given", Basis::kDeepSpeed);
    }
    return;
  }
  if (!member->value.is_object()) {
    refuse(Basis::kDeepSpeed, path, member->value.origin(),
           fmt::format("got {}, expected an object{}", member->value.excerpt(),
                       switch_hint(section, member->value)));
    return;
  }
  origins_[path] = member->value.origin();
  section.make_present();
  read_object(member->value, path, section.spec.deepspeed_checks, section.walk);
}

void FieldReader::on_collection(const Collection& collection) {
  offer(collection.key);
  const Member* member = level_.object->find_member(collection.key);
  if (!member || member->value.is_null()) return;
  const std::string path = path_of(collection.key);
  origins_[path] = member->value.origin();
  if (collection.is_list()) return read_collection_list(collection, member->value);
  if (!member->value.is_object()) {
    refuse(Basis::kDeepSpeed, path, member->value.origin(),
           fmt::format("got {}, expected an object of {}", member->value.excerpt(),
                       collection.placeholder));
    return;
  }
  for (const Member& element : member->value.members()) {
    const std::string element_path = fmt::format("{}.{}", path, element.key);
    if (!element.value.is_object()) {
      refuse(Basis::kDeepSpeed, element_path, element.value.origin(),
             fmt::format("got {}, expected an object", element.value.excerpt()));
      continue;
    }
    collection.add(element.key);
    read_object(element.value, element_path, collection.spec.deepspeed_checks,
                [&](Visitor& v) { collection.walk(element.key, v); });
  }
}

void FieldReader::read_collection_list(const Collection& collection, const Value& value) {
  const std::string path = path_of(collection.key);
  if (!value.is_list()) {
    return refuse(Basis::kDeepSpeed, path, value.origin(),
                  fmt::format("got {}, expected a list of objects", value.excerpt()));
  }
  for (size_t i = 0; i < value.items().size(); ++i) {
    const Value& element = value.items()[i];
    const std::string element_path = fmt::format("{}[{}]", path, i);
    const std::string name = std::to_string(i);
    collection.add(name);
    if (!element.is_object()) {
      refuse(Basis::kDeepSpeed, element_path, element.origin(),
             fmt::format("got {}, expected an object", element.excerpt()));
      continue;
    }
    read_object(element, element_path, collection.spec.deepspeed_checks,
                [&](Visitor& v) { collection.walk(name, v); });
  }
}

void FieldReader::on_rest(const Rest& rest) {
  level_.takes_rest = true;
  rest.target = Value::object();
  for (const Member& member : level_.object->members()) {
    if (level_.offered.contains(member.key)) continue;
    rest.target.members().push_back(member);
    origins_[path_of(member.key)] = member.value.origin();
  }
}

void FieldReader::report_unknown_keys(const std::function<void(Visitor&)>& walk) {
  if (level_.takes_rest) return;
  const Basis basis =
      level_.checks == DeepSpeedChecks::kKeysAndValues ? Basis::kDeepSpeed : Basis::kOwn;
  std::vector<std::string> known(level_.offered.begin(), level_.offered.end());
  for (const Member& member : level_.object->members()) {
    if (level_.offered.contains(member.key)) continue;
    const bool is_full = problems_.all().size() >= Problems::kMostReported;
    if (is_full && is_passed_over(level_.path, member.key, known)) {
      problems_.note("", member.origin, "");  // counts it
      continue;
    }
    if (is_reported(member.origin)) continue;
    const std::string path = path_of(shortened(member.key));
    if (const std::optional<std::string> why = why_ignored(level_.path, member.key)) {
      const std::optional<std::string_view> by = who_reads_past(level_.path);
      problems_.note(path, member.origin,
                     fmt::format("is ignored, as by {}: {}", by.value_or("DeepSpeed"), *why),
                     by ? basis : Basis::kOwn);
      continue;
    }
    ConditionFinder finder(member.key);
    walk(finder);
    if (finder.found()) {
      report_key_of_other_kind(path, member.origin, basis, finder.message());
      continue;
    }
    UnknownKey unknown = unknown_key(level_.path, member.key, known);
    if (is_typed(member.origin)) {
      unknown = {Severity::kError, unknown_key_text(level_.path, member.key, known)};
    }
    problems_.add({unknown.severity, basis, path, member.origin, std::move(unknown.message)});
  }
}

// A key of this section that has no meaning beside the "type" or "mode" that is given. DeepSpeed
// passes over it, and published files list the keys of all modes; in the sections that are ours it
// is a slip.
void FieldReader::report_key_of_other_kind(const std::string& path, const Origin& origin,
                                           Basis basis, const std::string& message) {
  // A refused discriminator ("type": "Adamm") already explains why its parameters have no place.
  if (level_.failed) return;
  const bool ours = level_.path == "model" || level_.path == "data" || level_.path == "train";
  if (ours || basis == Basis::kDeepSpeed) return problems_.error(basis, path, origin, message);
  problems_.note(path, origin, message);
}

// Rewriting old spellings may have spoken of the key already, and said more about it.
bool FieldReader::is_reported(const Origin& origin) const {
  const std::vector<Problem>& all = problems_.all();
  return std::any_of(all.begin(), all.end(), [&](const Problem& problem) {
    return problem.origin.line == origin.line && problem.origin.column == origin.column &&
           problem.origin.source == origin.source && origin.source != nullptr;
  });
}

}  // namespace

void read_fields(const Value& document, Config& config, Origins& origins, Problems& problems) {
  DS_CHECK(document.is_object(), "read_fields: the document is {}, expected an object",
           document.kind_name());
  FieldReader reader(origins, problems);
  reader.read_object(document, "", DeepSpeedChecks::kLittle,
                     [&](Visitor& v) { fields(v, config); });
}

}  // namespace ds
