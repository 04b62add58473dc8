// The run's token: a process that knows it belongs to the run. Ranks prove to each other that they know it, without
// sending it. It is never shown, nor written where other users may read it. docs/trust.md says what it protects.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/launch/launch.h"

namespace dtrain::launch {

// An environment variable for the token, since every user of a machine can read command lines.
constexpr const char* kTokenVariable = "DTRAIN_RUN_TOKEN";

// Returns --run_token or the value of the variable; empty if neither is set.
std::string GivenToken(const config::RanksConfig& ranks, const Environment& environment);

// Returns 128 random bits from the system as 32 hexadecimal digits. Throws Error if there are none.
std::string RandomToken();

// Returns the HMAC-SHA256 of `parts` (each preceded by its length) with the token as key, as 64 hexadecimal digits. An
// empty token proves nothing.
std::string Proof(const std::string& token, const std::vector<std::string_view>& parts);

// Compares two proofs in a time that does not depend on where they differ.
bool SameProof(std::string_view one, std::string_view other);

}  // namespace dtrain::launch
