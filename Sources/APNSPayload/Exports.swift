// SPDX-License-Identifier: Apache-2.0

// The app's own keys are values of JSON, and the problems of a payload contain faults and kinds of JSON.
@_exported public import APNSJSON
