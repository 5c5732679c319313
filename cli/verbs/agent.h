// `dslaunch agent`: told everything on standard input.
#pragma once

namespace CLI {
class App;
}

namespace ds {

struct AgentArgs {};

inline void describe_agent(CLI::App& /*app*/, AgentArgs& /*values*/) {}

}  // namespace ds
