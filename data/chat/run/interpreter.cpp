#include "data/chat/run/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/chat/run/interpreter.inl"

namespace ds::chat {

Interpreter::Interpreter(const Tree& tree, const Dict& variables, Budget& budget,
                         const ChatClock& clock)
    : Context(budget, clock), tree_(tree), variables_(variables) {}

// Namespaces, loops and scopes may hold one another in a circle, or in a chain that would be let go
// of by deep recursion: each is emptied by itself.
Interpreter::~Interpreter() {
  const auto empty = [](Scope* scope) {
    for (; scope != nullptr; scope = scope->parent.get()) scope->names.clear();
  };
  for (const Value& value : kept_) {
    if (value.is(Kind::kNamespace)) value.shared<Namespace>()->names.clear();
    if (value.is(Kind::kLoop)) {
      value.shared<Loop>()->last_changed.reset();
      empty(value.shared<Loop>()->scope.get());
    }
  }
  for (const ScopePtr& scope : kept_scopes_) empty(scope.get());
  empty(scope_.get());
}

std::string Interpreter::run() {
  scope_ = new_scope(nullptr, tree_.hidden);
  execute(tree_.body);
  return std::move(text_);
}

Interpreter::ScopePtr Interpreter::new_scope(const ScopePtr& outer,
                                             const std::vector<std::string>& hidden) {
  auto scope = std::make_shared<Scope>(outer, &budget());
  for (const std::string& name : hidden) scope->set(name, Value::absent());
  return scope;
}

void Interpreter::write(std::string_view text) {
  budget().spend_on(text.size());
  budget().take(text.size());
  *out_ += text;
}

void Interpreter::write_value(const Value& value) {
  if (value.is(Kind::kText)) return write(value.as_text());
  write(str(value));
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const Node* node : body) {
    const Flow flow = execute(*node);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Node& node) {
  const Level deeper(*this);
  line_ = node.line;
  budget().spend(1);
  switch (node.kind) {
    case NodeKind::kText:
      write(node.name);
      return Flow::kNext;
    case NodeKind::kPrint:
      write_value(evaluate(*node.parts[0]));
      return Flow::kNext;
    case NodeKind::kIf:
      return execute_if(node);
    case NodeKind::kFor:
      return execute_for(node, evaluate(*node.parts[0]), 0);
    case NodeKind::kSet:
      assign(*node.target, evaluate(*node.parts[0]));
      return Flow::kNext;
    case NodeKind::kSetBlock:
      return execute_set_block(node);
    case NodeKind::kMacro:
      define_macro(node);
      return Flow::kNext;
    case NodeKind::kCallBlock:
      call_block(node);
      return Flow::kNext;
    case NodeKind::kFilterBlock:
      return execute_filter_block(node);
    case NodeKind::kWith:
      return execute_with(node);
    case NodeKind::kGeneration:
      execute_generation(node);
      return Flow::kNext;
    case NodeKind::kBreak:
      return Flow::kBreak;
    default:
      return Flow::kContinue;
  }
}

Interpreter::Flow Interpreter::execute_if(const Node& node) {
  for (size_t i = 0; i < node.parts.size(); ++i) {
    if (evaluate(*node.parts[i]).is_true()) return execute(node.branches[i]);
  }
  return node.branches.size() > node.parts.size() ? execute(node.branches.back()) : Flow::kNext;
}

// Items come one by one: a condition of the loop may read what its body sets.
std::function<std::optional<Value>()> Interpreter::drawer(const Node& node, const Value& source,
                                                          Loop& loop) {
  std::function<std::optional<Value>()> next;
  if (source.is(Kind::kIterator)) {
    next = [from = source.shared<Iterator>()]() -> std::optional<Value> {
      return from->next < from->items.size() ? std::optional(from->items[from->next++])
                                             : std::nullopt;
    };
  } else {
    Values items = items_of(*this, source);
    auto room = std::make_shared<Charge>(&budget(), items.size() * sizeof(Value));
    if (node.parts[1] == nullptr) loop.length = static_cast<int64_t>(items.size());
    next = [room = std::move(room), items = std::move(items),
            at = size_t{0}]() mutable -> std::optional<Value> {
      return at < items.size() ? std::optional(items[at++]) : std::nullopt;
    };
  }
  if (node.parts[1] == nullptr) return next;
  return [this, &node, next, outer = scope_]() -> std::optional<Value> {
    while (auto item = next()) {
      const Inside inside(*this, new_scope(outer, {}));
      assign(*node.target, *item);
      if (evaluate(*node.parts[1]).is_true()) return item;
    }
    return std::nullopt;
  };
}

Interpreter::Flow Interpreter::execute_for(const Node& node, const Value& items, int depth0) {
  auto loop = std::make_shared<Loop>(&budget());
  budget().check_depth(items.depth());
  loop->depth = items.depth() + 1;
  loop->depth0 = depth0;
  loop->node = &node;
  loop->scope = scope_;
  loop->draw = drawer(node, items, *loop);
  const Flow flow = run_loop(node, loop);
  if (loop.use_count() > 1) keep(Value(loop));  // a namespace, say, holds it beyond its end
  if (flow != Flow::kNext || node.branches[1].empty()) return Flow::kNext;
  const Inside inside(*this, new_scope(scope_, {}));
  return execute(node.branches[1]);
}

// Returns kNext where the else branch is to run: no round came to its end, as Jinja has it.
Interpreter::Flow Interpreter::run_loop(const Node& node, const std::shared_ptr<Loop>& loop) {
  bool any_ended = false;
  while (loop->advance()) {
    budget().spend(1);
    const Inside inside(*this, new_scope(loop->scope, node.hidden));
    scope_->set("loop", Value(loop));
    assign(*node.target, *loop->current);
    const Flow flow = execute(node.branches[0]);
    if (flow == Flow::kBreak) break;
    any_ended |= flow == Flow::kNext;
  }
  return any_ended ? Flow::kContinue : Flow::kNext;
}

Interpreter::Flow Interpreter::execute_set_block(const Node& node) {
  Captured captured(*this);
  Flow flow = Flow::kNext;
  {
    const Inside inside(*this, new_scope(scope_, node.hidden));
    flow = execute(node.branches[0]);
  }
  Value value = captured.take();
  if (flow != Flow::kNext) return flow;
  assign(*node.target, evaluate_filters(node.parts[0], std::move(value)));
  return flow;
}

Interpreter::Flow Interpreter::execute_filter_block(const Node& node) {
  Captured captured(*this);
  Flow flow = Flow::kNext;
  {
    const Inside inside(*this, new_scope(scope_, node.hidden));
    flow = execute(node.branches[0]);
  }
  Value value = captured.take();
  if (flow == Flow::kNext) write_value(evaluate_filters(node.parts[0], std::move(value)));
  return flow;
}

Interpreter::Flow Interpreter::execute_with(const Node& node) {
  ScopePtr scope = new_scope(scope_, node.hidden);
  Values values;
  for (size_t i = 1; i < node.parts.size(); i += 2) values.push_back(evaluate(*node.parts[i]));
  const Inside inside(*this, std::move(scope));
  for (size_t i = 0; i < values.size(); ++i) assign(*node.parts[2 * i], std::move(values[i]));
  return execute(node.branches[0]);
}

void Interpreter::execute_generation(const Node& node) {
  const Inside inside(*this, new_scope(scope_, node.hidden));
  const size_t begin = text_.size();
  const bool outermost = !std::exchange(in_generation_, true);
  const bool placed = out_ == &text_;
  if (!placed && outermost && unplaced_generation_line_ == 0) unplaced_generation_line_ = node.line;
  execute(node.branches[0]);
  if (!outermost) return;
  in_generation_ = false;
  if (placed) generation_.push_back({begin, text_.size()});
}

void Interpreter::define_macro(const Node& node) { scope_->set(node.name, make_macro(node)); }

Value Interpreter::make_macro(const Node& node) {
  constexpr size_t kBytes = 128;
  budget().take(kBytes + node.name.size());  // given back when the rendering ends
  if (kept_scopes_.empty() || kept_scopes_.back() != scope_) kept_scopes_.push_back(scope_);
  return Value(std::make_shared<const Macro>(Macro{&node, scope_, node.name}));
}

void Interpreter::call_block(const Node& node) {
  const Value caller = make_macro(*node.parts[1]);
  write_value(evaluate_call(*node.parts[0], &caller));
}

void Interpreter::assign(const Node& target, Value value) {
  if (target.kind == NodeKind::kName) {
    budget().spend(scope_->names.size() / 64);
    return scope_->set(target.name, std::move(value));
  }
  if (target.kind == NodeKind::kTuple) return unpack(target, value);
  const Value* found = scope_->find(target.name);
  if (found == nullptr || !found->is(Kind::kNamespace))
    throw Fault(fmt::format("'{}' is no namespace, so its attributes cannot be set", target.name));
  const std::string& name = target.value.as_text();
  if (name.starts_with('_'))
    throw Fault(fmt::format("a namespace holds no attribute that begins with _: '{}'", name));
  Namespace& space = *found->shared<Namespace>();
  budget().spend(space.names.size() / 64);
  if (Value* known = space.find(name)) {
    *known = std::move(value);
  } else {
    budget().take(name.size() + sizeof(Value));
    space.names.emplace_back(name, std::move(value));
  }
}

void Interpreter::unpack(const Node& target, const Value& value) {
  Values items = items_of(*this, value);
  if (items.size() != target.parts.size()) {
    throw Fault(
        fmt::format("{} values cannot be assigned to {} names", items.size(), target.parts.size()));
  }
  for (size_t i = 0; i < items.size(); ++i) assign(*target.parts[i], std::move(items[i]));
}

Value Interpreter::call_macro(const Macro& macro, Arguments arguments) {
  budget().check_depth(++calls_);
  const Node& node = *macro.node;
  Captured captured(*this);
  {
    const Inside inside(*this, new_scope(macro.scope, node.hidden));
    bind_macro(node, std::move(arguments), *scope_);
    execute(node.branches[0]);
  }
  --calls_;
  return captured.take();
}

void Interpreter::bind_macro(const Node& node, Arguments arguments, Scope& scope) {
  const std::string name =
      node.name.empty() ? "the caller" : fmt::format("the macro '{}'", node.name);
  const auto take_named = [&](std::string_view wanted) {
    const auto found =
        std::ranges::find_if(arguments.named, [&](const auto& n) { return n.first == wanted; });
    if (found == arguments.named.end()) return Value::absent();
    Value value = std::move(found->second);
    arguments.named.erase(found);
    return value;
  };
  budget().spend(node.parameters.size() * (node.parameters.size() + arguments.named.size()) / 64);
  Values& given = arguments.positional;
  Values bound;
  for (size_t i = 0; i < node.parameters.size(); ++i)
    bound.push_back(i < given.size() ? given[i] : take_named(node.parameters[i].name));
  const auto explicit_caller = std::ranges::find(node.parameters, "caller", &Parameter::name);
  if (node.uses_caller && explicit_caller == node.parameters.end()) {
    Value caller = take_named("caller");
    const bool none = !caller.given() || caller.is(Kind::kNone);
    scope.set("caller", none ? undefined("No caller defined") : std::move(caller));
  }
  if (node.uses_kwargs) {
    DictMaker rest(&budget());
    for (auto& [key, value] : arguments.named) rest.set(text(key), std::move(value));
    scope.set("kwargs", rest.finish());
  } else if (!arguments.named.empty()) {
    throw Fault(fmt::format("{} takes no argument '{}' here", name, arguments.named[0].first));
  }
  const size_t taken = std::min(given.size(), bound.size());
  if (node.uses_varargs) {
    scope.set("varargs", tuple({given.begin() + static_cast<ptrdiff_t>(taken), given.end()}));
  } else if (given.size() > bound.size()) {
    throw Fault(
        fmt::format("{} takes at most {} arguments, and got {}", name, bound.size(), given.size()));
  }
  for (size_t i = 0; i < bound.size(); ++i) scope.set(node.parameters[i].name, std::move(bound[i]));
  for (const Parameter& parameter : node.parameters) {
    if (scope.find(parameter.name)->given()) continue;
    scope.set(parameter.name,
              parameter.fallback != nullptr
                  ? evaluate(*parameter.fallback)
                  : undefined(fmt::format("parameter '{}' was not provided", parameter.name)));
  }
}

Value Interpreter::call_loop(const Loop& loop, const Arguments& arguments) {
  if (!loop.node->recursive) throw Fault("loop(...) wants a loop with the word recursive");
  if (arguments.positional.size() != 1 || !arguments.named.empty())
    throw Fault("loop(...) takes one value to go over");
  budget().check_depth(++calls_);
  Captured captured(*this);
  {
    const Inside inside(*this, ScopePtr(loop.scope));
    execute_for(*loop.node, arguments[0], loop.depth0 + 1);
  }
  --calls_;
  return captured.take();
}

Value Interpreter::call(const Value& callee, Arguments arguments) {
  switch (callee.kind()) {
    case Kind::kUndefined:
      throw Fault(callee.undefined_message());
    case Kind::kMacro:
      return call_macro(*callee.shared<const Macro>(), std::move(arguments));
    case Kind::kLoop: {
      return call_loop(*callee.shared<Loop>(), arguments);
    }
    case Kind::kFunction: {
      const Function& function = *callee.shared<const Function>();
      return call_native(*this, *function.native, function.self, std::move(arguments));
    }
    default:
      refuse_type("a call", callee);
  }
}

}  // namespace ds::chat
