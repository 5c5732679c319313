#include "data/chat/syntax/scopes.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "data/chat/syntax/lexer.h"

namespace ds::chat {
namespace {

// What one scope does with names. Branches of an `if` are copies that are joined again.
struct Names {
  const Names* outer = nullptr;
  std::map<std::string_view, bool> known;  // true: hidden until it is set
  std::set<std::string_view> set;

  bool knows(std::string_view name) const {
    return known.contains(name) || (outer != nullptr && outer->knows(name));
  }
  void read(std::string_view name) {
    if (!knows(name)) known[name] = false;
  }
  void write(std::string_view name) {
    set.insert(name);
    const bool outside = outer != nullptr && outer->knows(name);
    known.emplace(name, !outside);
  }
  void declare(std::string_view name) { known.emplace(name, false); }

  // A name that some branches set, and others do not, may come from outside.
  void join(const std::vector<Names>& branches) {
    std::map<std::string_view, size_t> counts;
    for (const Names& branch : branches) {
      for (const std::string_view name : branch.set) {
        if (!set.contains(name)) ++counts[name];
      }
    }
    for (const Names& branch : branches) {
      for (const auto& [name, hidden] : branch.known) known[name] = hidden;
      set.insert(branch.set.begin(), branch.set.end());
    }
    for (const auto& [name, count] : counts) {
      if (count < branches.size()) known[name] = false;
    }
  }
};

class ScopeVisitor {
 public:
  std::vector<std::string> root(const Body& body) { return scope(nullptr, nullptr, body); }
  std::unordered_map<const Node*, std::vector<std::string>>& found() { return found_; }

 private:
  // Goes over a body in a scope of its own, then over those within. Returns what it hides.
  std::vector<std::string> scope(const Names* outer, const Node* owner, const Body& body) {
    Names names{outer, {}, {}};
    if (owner != nullptr) declare(*owner, names);
    for (const Node* node : body) statement(*node, names);
    for (const Node* node : body) scopes_within(*node, names);
    std::vector<std::string> out;
    for (const auto& [name, hidden] : names.known) {
      if (hidden) out.emplace_back(name);
    }
    return out;
  }

  void declare(const Node& owner, Names& names) {
    if (owner.kind == NodeKind::kFor) declare_target(*owner.target, names);
    if (owner.kind == NodeKind::kWith) {
      for (size_t i = 0; i < owner.parts.size(); i += 2) declare_target(*owner.parts[i], names);
    }
    for (const Parameter& parameter : owner.parameters) names.declare(parameter.name);
    for (const Parameter& parameter : owner.parameters) expression(parameter.fallback, names);
  }

  static void declare_target(const Node& target, Names& names) {
    if (target.kind == NodeKind::kName) names.declare(target.name);
    for (const Node* part : target.parts) declare_target(*part, names);
  }

  static void write_target(const Node& target, Names& names) {
    if (target.kind == NodeKind::kName) names.write(target.name);
    if (target.kind == NodeKind::kNamespaceAttribute) names.read(target.name);
    for (const Node* part : target.parts) write_target(*part, names);
  }

  // Names that an expression reads. A chain of filters may be long, so there is no recursion.
  static void expression(const Node* node, Names& names) {
    std::vector<const Node*> left{node};
    while (!left.empty()) {
      const Node* next = left.back();
      left.pop_back();
      if (next == nullptr) continue;
      if (next->kind == NodeKind::kName) names.read(next->name);
      left.insert(left.end(), next->parts.begin(), next->parts.end());
      for (const Argument& argument : next->arguments) left.push_back(argument.value);
    }
  }

  void statement(const Node& node, Names& names) {
    switch (node.kind) {
      case NodeKind::kPrint:
        return expression(node.parts[0], names);
      case NodeKind::kIf:
        return condition(node, names);
      case NodeKind::kFor:
        return expression(node.parts[0], names);
      case NodeKind::kSet:
        expression(node.parts[0], names);
        return write_target(*node.target, names);
      case NodeKind::kSetBlock:
        return write_target(*node.target, names);
      case NodeKind::kMacro:
        return names.write(node.name);
      case NodeKind::kCallBlock:
      case NodeKind::kFilterBlock:
        return expression(node.parts[0], names);
      case NodeKind::kWith:
        for (size_t i = 1; i < node.parts.size(); i += 2) expression(node.parts[i], names);
        return;
      default:
        return;
    }
  }

  void condition(const Node& node, Names& names) {
    for (size_t i = 0; i < node.parts.size(); ++i) expression(node.parts[i], names);
    work_ += (node.parts.size() + 4) * (names.known.size() + 1);
    if (work_ > kMostWork) throw SyntaxFault(node.line, "the template has too many names");
    std::vector<Names> branches(node.parts.size(), names);
    for (size_t i = 0; i < node.parts.size(); ++i) {
      for (const Node* inner : node.branches[i]) statement(*inner, branches[i]);
    }
    Names otherwise = names;
    if (node.branches.size() > node.parts.size()) {
      for (const Node* inner : node.branches.back()) statement(*inner, otherwise);
    }
    // One branch, all of elif, and the else count as three, as in Jinja: without an elif nothing
    // is set by all.
    Names elifs = names;
    if (branches.size() > 1) {
      std::vector<Names> each(branches.begin() + 1, branches.end());
      each.resize(each.size() + 2, names);
      elifs.join(each);
    }
    names.join({branches[0], elifs, otherwise});
  }

  void scopes_within(const Node& node, const Names& names) {
    switch (node.kind) {
      case NodeKind::kIf:
        for (const Body& branch : node.branches) {
          for (const Node* inner : branch) scopes_within(*inner, names);
        }
        return;
      case NodeKind::kFor:
        found_[&node] = scope(&names, &node, node.branches[0]);
        scope(&names, nullptr, node.branches[1]);
        return;
      case NodeKind::kCallBlock:
        return scopes_within(*node.parts[1], names);
      case NodeKind::kMacro:
      case NodeKind::kSetBlock:
      case NodeKind::kFilterBlock:
      case NodeKind::kGeneration:
      case NodeKind::kWith:
        found_[&node] = scope(&names, &node, node.branches[0]);
        return;
      default:
        return;
    }
  }

  static constexpr size_t kMostWork = 4'000'000;
  size_t work_ = 0;  // names that branches copy
  std::unordered_map<const Node*, std::vector<std::string>> found_;
};

}  // namespace

void find_hidden_names(Tree& tree) {
  ScopeVisitor visitor;
  tree.hidden = visitor.root(tree.body);
  for (Node& node : tree.nodes) {
    if (const auto found = visitor.found().find(&node); found != visitor.found().end())
      node.hidden = std::move(found->second);
  }
}

}  // namespace ds::chat
