// SPDX-License-Identifier: Apache-2.0
//
// Sends two notifications with the files of a simulator's folder, and prints what comes back in hexadecimal, a line for
// each form of the provider's certificate.
// Arguments: folder, port, host name, the token of the first notification, the token of the second one.

const fs = require('node:fs');
const tls = require('node:tls');

const [folder, port, name, good, bad] = process.argv.slice(2);
const read = (file) => fs.readFileSync(`${folder}/${file}`);
const passphrase = read('passphrase.txt').toString().trim();

function frame(identifier, token) {
  const device = Buffer.from(token, 'hex');
  const payload = Buffer.from('{"aps":{"alert":"hello"}}');
  const head = Buffer.alloc(11);
  head.writeUInt8(1, 0);
  head.writeUInt32BE(identifier, 1);
  head.writeUInt32BE(0, 5);
  head.writeUInt16BE(device.length, 9);
  const length = Buffer.alloc(2);
  length.writeUInt16BE(payload.length, 0);
  return Buffer.concat([head, device, length, payload]);
}

function send(identity) {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port: Number(port), servername: name, ca: read('authority.pem'), ...identity };
    const socket = tls.connect(options, () => socket.write(Buffer.concat([frame(1, good), frame(2, bad)])));
    const pieces = [];
    socket.setTimeout(20000, () => socket.destroy(new Error('no answer')));
    socket.on('data', (piece) => pieces.push(piece));
    socket.on('end', () => resolve(Buffer.concat(pieces).toString('hex')));
    socket.on('error', reject);
  });
}

(async () => {
  const combined = read('provider-combined.pem');
  const identities = [
    { pfx: read('provider-legacy.p12'), passphrase },
    { pfx: read('provider.p12'), passphrase },
    { cert: combined, key: combined },
    { cert: read('provider.pem'), key: read('provider.key.pem') },
  ];
  for (const identity of identities) console.log(await send(identity));
})();
