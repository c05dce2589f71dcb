// SPDX-License-Identifier: Apache-2.0

// The app's own keys are values of JSON.
@_exported public import struct APNSJSON.JSONNumber
@_exported public import enum APNSJSON.JSONValue
