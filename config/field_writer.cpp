#include "config/field_writer.h"

#include <utility>

#include "config/reader/convert.h"
#include "config/reader/secret_keys.h"

namespace ds {

namespace {

class FieldWriter : public Visitor {
 public:
  enum class Detail { kEverything, kEffective };

  FieldWriter(Value& object, Detail detail) : object_(&object), detail_(detail) {}
  bool only_effective() const override { return detail_ == Detail::kEffective; }

  void on_field(const Field& field) override {
    Value value = is_secret_key(field.key) ? Value::null()
                                           : without_secrets(field_value(field), Value::null());
    if (value.is_null()) {
      if (field.spec.omit_unset || field.spec.required) return;
      if (!field.spec.unset_text.empty()) {
        value = Value::string(std::string(field.spec.unset_text));
      } else if (field.spec.refuse_null) {
        return;
      }
    }
    object_->set(field.key, std::move(value));
  }

  void on_section(const Section& section) override {
    if (!section.present()) {
      if (!only_effective()) object_->set(section.key, Value::null());
      return;
    }
    into(object_->set(section.key, Value::object()), section.walk);
  }

  void on_collection(const Collection& collection) override {
    const bool is_list = collection.is_list();
    const std::vector<std::string> names = collection.names();
    if (!is_list && names.empty() && !only_effective()) return;
    Value& target = object_->set(collection.key, is_list ? Value::list() : Value::object());
    for (const std::string& name : names) {
      Value element = Value::object();
      into(element, [&](Visitor& v) { collection.walk(name, v); });
      if (is_list) {
        target.items().push_back(std::move(element));
      } else {
        target.set(name, std::move(element));
      }
    }
  }

  void on_rest(const Rest& rest) override {
    for (const Member& member : rest.target.members()) {
      const bool secret = is_secret_key(member.key);
      object_->set(member.key,
                   secret ? Value::null() : without_secrets(member.value, Value::null()));
    }
  }

 private:
  void into(Value& object, const std::function<void(Visitor&)>& walk) {
    Value* outer = std::exchange(object_, &object);
    walk(*this);
    object_ = outer;
  }

  Value* object_;
  Detail detail_;
};

}  // namespace

Value write_fields(Config config) {
  Value document = Value::object();
  FieldWriter writer(document, FieldWriter::Detail::kEverything);
  fields(writer, config);
  return document;
}

Value write_effective_fields(Config config) {
  Value document = Value::object();
  FieldWriter writer(document, FieldWriter::Detail::kEffective);
  fields(writer, config);
  return document;
}

}  // namespace ds
