// The part of the interpreter that makes values.
#include <fmt/format.h>

#include <algorithm>

#include "data/chat/run/attributes.h"
#include "data/chat/run/filters.h"
#include "data/chat/run/functions.h"
#include "data/chat/run/interpreter.inl"
#include "data/chat/run/operators.h"
#include "data/chat/run/tests.h"

namespace ds::chat {

Value Interpreter::evaluate(const Node& node) {
  const Level deeper(*this);
  line_ = node.line;
  budget().spend(1);
  switch (node.kind) {
    case NodeKind::kConstant:
      return node.value;
    case NodeKind::kName:
      return evaluate_name(node);
    case NodeKind::kList:
      return list(evaluate_all(node.parts));
    case NodeKind::kTuple:
      return tuple(evaluate_all(node.parts));
    case NodeKind::kDict:
      return evaluate_dict(node);
    case NodeKind::kAttribute:
      return attribute_of(*this, evaluate(*node.parts[0]), node.name);
    case NodeKind::kItem:
      return evaluate_item(node);
    case NodeKind::kSlice:
      throw Fault("a slice stands where none is possible");
    case NodeKind::kCall:
      return evaluate_call(node, nullptr);
    case NodeKind::kFilter:
      return evaluate_filter(node, evaluate(*node.parts[0]));
    case NodeKind::kTest: {
      const Value value = evaluate(*node.parts[0]);
      Arguments arguments = evaluate_arguments(node);
      line_ = node.line;
      return Value(test(node.name, value, std::move(arguments)));
    }
    case NodeKind::kNot:
      return Value(!evaluate(*node.parts[0]).is_true());
    case NodeKind::kNegative:
      return negated(evaluate(*node.parts[0]));
    case NodeKind::kPositive:
      return positive(evaluate(*node.parts[0]));
    case NodeKind::kMath:
      return evaluate_math(node);
    case NodeKind::kCompare:
      return evaluate_compare(node);
    case NodeKind::kConcat:
      return evaluate_concat(node);
    case NodeKind::kAnd:
      return evaluate_logic(node, false);
    case NodeKind::kOr:
      return evaluate_logic(node, true);
    default:
      return evaluate_condition(node);
  }
}

Value Interpreter::evaluate_name(const Node& node) {
  size_t names = 0;
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get())
    names += scope->names.size();
  budget().spend(names / 64);
  if (const Value* found = scope_->find(node.name)) {
    if (found->given()) return *found;
    return undefined(fmt::format("'{}' is undefined", node.name));
  }
  if (const Value* found = variables_.find(node.name)) return *found;
  if (const Native* function = find_function(node.name))
    return make_function(&budget(), function, Value());
  return undefined(fmt::format("'{}' is undefined", node.name));
}

Values Interpreter::evaluate_all(const std::vector<const Node*>& nodes) {
  Values out;
  for (const Node* node : nodes) out.push_back(evaluate(*node));
  return out;
}

Value Interpreter::evaluate_dict(const Node& node) {
  DictMaker out(&budget());
  for (size_t i = 0; i < node.parts.size(); i += 2) {
    Value key = evaluate(*node.parts[i]);
    out.set(std::move(key), evaluate(*node.parts[i + 1]));
  }
  return out.finish();
}

Value Interpreter::evaluate_item(const Node& node) {
  const Value value = evaluate(*node.parts[0]);
  const Node& key = *node.parts[1];
  if (key.kind != NodeKind::kSlice) {
    const Value index = evaluate(key);
    line_ = node.line;
    return item_of(*this, value, index);
  }
  const auto bound = [&](size_t i) {
    return key.parts[i] == nullptr ? Value() : evaluate(*key.parts[i]);
  };
  const Value from = bound(0), to = bound(1), step = bound(2);
  line_ = node.line;
  return slice_of(*this, value, from, to, step);
}

Value Interpreter::evaluate_math(const Node& node) {
  Value out = evaluate(*node.parts[0]);
  for (size_t i = 0; i < node.operators.size(); ++i) {
    const Value right = evaluate(*node.parts[i + 1]);
    line_ = node.parts[i + 1]->line;
    out = calculate(*this, node.operators[i], out, right);
  }
  return out;
}

Value Interpreter::evaluate_compare(const Node& node) {
  Value left = evaluate(*node.parts[0]);
  for (size_t i = 0; i < node.operators.size(); ++i) {
    Value right = evaluate(*node.parts[i + 1]);
    line_ = node.line;
    if (!compare(*this, node.operators[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::evaluate_concat(const Node& node) {
  const Values parts = evaluate_all(node.parts);
  std::string out;
  for (const Value& part : parts) {
    out += str(part);
    if (out.size() > budget().limits().bytes) budget().take(out.size());
  }
  return text(std::move(out));
}

// The operand that decides.
Value Interpreter::evaluate_logic(const Node& node, bool stops_at) {
  Value out;
  for (const Node* part : node.parts) {
    out = evaluate(*part);
    if (out.is_true() == stops_at) break;
  }
  return out;
}

Value Interpreter::evaluate_condition(const Node& node) {
  if (evaluate(*node.parts[1]).is_true()) return evaluate(*node.parts[0]);
  if (node.parts[2] != nullptr) return evaluate(*node.parts[2]);
  return undefined("an inline if without else has no value where it is false");
}

Value Interpreter::evaluate_filter(const Node& node, const Value& value) {
  Arguments arguments = evaluate_arguments(node);
  line_ = node.line;
  return filter(node.name, value, std::move(arguments));
}

// A chain of filters behind what a block wrote.
Value Interpreter::evaluate_filters(const Node* outermost, Value value) {
  std::vector<const Node*> chain;
  for (const Node* node = outermost; node != nullptr; node = node->parts[0]) chain.push_back(node);
  for (auto node = chain.rbegin(); node != chain.rend(); ++node)
    value = evaluate_filter(**node, value);
  return value;
}

Value Interpreter::filter(std::string_view name, const Value& value, Arguments arguments) {
  const Native* found = find_filter(name);
  if (found == nullptr) throw Fault(fmt::format("the filter '{}' is not supported", name));
  const Level deeper(*this);
  budget().spend(1);
  return call_native(*this, *found, value, std::move(arguments));
}

bool Interpreter::test(std::string_view name, const Value& value, Arguments arguments) {
  const Native* found = find_test(name);
  if (found == nullptr) throw Fault(fmt::format("the test '{}' is not supported", name));
  const Level deeper(*this);
  budget().spend(1);
  return call_native(*this, *found, value, std::move(arguments)).is_true();
}

Value Interpreter::evaluate_call(const Node& node, const Value* caller) {
  const Value callee = evaluate(*node.parts[0]);
  Arguments arguments = evaluate_arguments(node);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  line_ = node.line;
  return call(callee, std::move(arguments));
}

Arguments Interpreter::evaluate_arguments(const Node& node) {
  Arguments out;
  for (const Argument& argument : node.arguments) {
    Value value = evaluate(*argument.value);
    budget().spend(out.named.size() / 64);
    switch (argument.form) {
      case Argument::Form::kPositional:
        out.positional.push_back(std::move(value));
        break;
      case Argument::Form::kNamed:
        if (out.find(argument.name) != nullptr)
          throw Fault(fmt::format("the argument '{}' comes twice", argument.name));
        out.named.emplace_back(argument.name, std::move(value));
        break;
      case Argument::Form::kUnpackedList:
        for (Value& item : items_of(*this, value)) out.positional.push_back(std::move(item));
        break;
      case Argument::Form::kUnpackedDict:
        unpack_dict(value, out);
        break;
    }
  }
  return out;
}

void Interpreter::unpack_dict(const Value& value, Arguments& out) {
  if (!value.is(Kind::kDict)) refuse_type("** in a call", value);
  for (const auto& [key, item] : value.as_dict().items) {
    const std::string& name = text_of("** in a call", key);
    budget().spend(1 + out.named.size() / 64);
    if (out.find(name) != nullptr) throw Fault(fmt::format("the argument '{}' comes twice", name));
    out.named.emplace_back(name, item);
  }
}

}  // namespace ds::chat
