// SPDX-License-Identifier: Apache-2.0

/**
 * Splits JSON text into tokens without decoding values, so that a payload is shown as sent, including its order of
 * keys, duplicate keys, long numbers and escapes. From the first invalid token on, the text is shown unchanged.
 */

const token = /[ \t\r\n]+|"(?:[^"\\]|\\[\s\S])*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[{}[\],:]/suy;

/** A piece of the output; `offset` is its position in the source, or -1 for added white space. */
function piece(kind, text, offset) {
    return { kind, text, offset };
}

/** The pieces of pretty-printed JSON; a final piece contains the rest that is not JSON. */
export function prettyPieces(source) {
    const tokens = [];
    let rest = source.length;
    token.lastIndex = 0;
    for (let offset = 0; offset < source.length; offset = token.lastIndex) {
        token.lastIndex = offset;
        const match = token.exec(source);
        if (!match) {
            rest = offset;
            break;
        }
        if (!/^[ \t\r\n]/.test(match[0])) tokens.push({ text: match[0], offset });
    }
    const pieces = layOut(tokens);
    if (rest < source.length) pieces.push(piece("rest", source.slice(rest), rest));
    return pieces;
}

function layOut(tokens) {
    const pieces = [];
    let depth = 0;
    const newLine = () => pieces.push(piece("space", `\n${"  ".repeat(depth)}`, -1));
    tokens.forEach(({ text, offset }, index) => {
        const next = tokens[index + 1]?.text;
        const previous = tokens[index - 1]?.text;
        if (text === "{" || text === "[") {
            pieces.push(piece("punctuation", text, offset));
            depth += 1;
            if (next !== "}" && next !== "]") newLine();
        } else if (text === "}" || text === "]") {
            depth = Math.max(0, depth - 1);
            if (previous !== "{" && previous !== "[") newLine();
            pieces.push(piece("punctuation", text, offset));
        } else if (text === ",") {
            pieces.push(piece("punctuation", text, offset));
            newLine();
        } else if (text === ":") {
            pieces.push(piece("punctuation", text, offset), piece("space", " ", -1));
        } else {
            pieces.push(piece(kindOf(text, next), text, offset));
        }
    });
    return pieces;
}

function kindOf(text, next) {
    if (text.startsWith('"')) return next === ":" ? "key" : "string";
    return /^[-\d]/.test(text) ? "number" : "word";
}

/**
 * The offset of a line and column in a text, both from 1, the column in code points. LF, CR LF and a lone CR end a
 * line.
 */
export function offsetOf(text, line, column) {
    let offset = 0;
    const ends = /\r\n|\n|\r/g;
    for (let passed = 1; passed < line; passed += 1) {
        const end = ends.exec(text);
        if (!end) return text.length;
        offset = ends.lastIndex;
    }
    for (let passed = 1; passed < column && offset < text.length; passed += 1) {
        offset += text.codePointAt(offset) > 0xffff ? 2 : 1;
    }
    return offset;
}
