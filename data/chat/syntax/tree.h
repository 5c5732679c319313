// The tree of a template. Nodes belong to the tree; chains of operators and of filters are lists,
// so no node lies deeper than the limit of levels.
#pragma once

#include <deque>

#include "data/chat/value/value.h"

namespace ds::chat {

enum class NodeKind {
  // expressions
  kConstant,
  kName,
  kList,
  kTuple,
  kDict,       // parts: key, value, key, value
  kAttribute,  // parts[0].name
  kItem,       // parts[0][parts[1]]
  kSlice,      // parts: from, to, step; null where left out
  kCall,       // parts[0](arguments)
  kFilter,     // parts[0]|name(arguments); parts[0] is null in a filter block
  kTest,       // parts[0] is name(arguments)
  kNot,
  kNegative,
  kPositive,
  kMath,     // parts[0] operators[0] parts[1] operators[1] ...
  kCompare,  // the same
  kConcat,
  kAnd,
  kOr,
  kCondition,           // parts[0] if parts[1] else parts[2], which may be null
  kNamespaceAttribute,  // a target: name.value
  // statements
  kText,
  kPrint,
  kIf,         // parts[i]: condition of branches[i]; one branch more is the else
  kFor,        // target in parts[0] if parts[1]; branches: body, else
  kSet,        // target = parts[0]
  kSetBlock,   // target; parts[0]: filters or null; branches[0]
  kMacro,      // name, parameters; branches[0]
  kCallBlock,  // parts[0]: the call; parts[1]: the macro that is its caller
  kFilterBlock,
  kWith,  // targets and values by turns in parts
  kGeneration,
  kBreak,
  kContinue,
};

enum class Operator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Node;
using Body = std::vector<const Node*>;

struct Argument {
  enum class Form { kPositional, kNamed, kUnpackedList, kUnpackedDict };
  Form form = Form::kPositional;
  std::string name;
  const Node* value = nullptr;
};

struct Parameter {
  std::string name;
  const Node* fallback = nullptr;  // null: none
};

struct Node {
  NodeKind kind = NodeKind::kConstant;
  int line = 0;
  std::string name;
  Value value;
  std::vector<const Node*> parts;
  std::vector<Operator> operators;
  std::vector<Argument> arguments;
  std::vector<Parameter> parameters;
  std::vector<Body> branches;
  const Node* target = nullptr;
  bool recursive = false;
  // Names that a macro's body uses, so that calls may bring them.
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
  // Names that a scope sets before it reads them: outside variables are hidden from its beginning.
  std::vector<std::string> hidden;
};

struct Tree {
  std::deque<Node> nodes;
  Body body;
  std::vector<std::string> hidden;
};

}  // namespace ds::chat
