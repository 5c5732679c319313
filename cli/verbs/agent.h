// `dslaunch agent`: told everything on standard input.
#pragma once

namespace ds {

class VerbApp;

struct AgentArgs {};

inline void describe_agent(VerbApp& /*app*/, AgentArgs& /*values*/) {}

}  // namespace ds
